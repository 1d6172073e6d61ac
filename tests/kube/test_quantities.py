"""Quantities have the values that they have in Kubernetes."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.kube.quantities import QuantityValue, nano, to_amount
from afflux.model.errors import InputError
from afflux.model.resources import CPU, MAX_AMOUNT, MEMORY

SUFFIXES = {
    "": Fraction(1),
    **{s: Fraction(10) ** e for s, e in zip("num", (-9, -6, -3), strict=True)},
    **{s: Fraction(1000) ** (i + 1) for i, s in enumerate("kMGTPE")},
    **{f"{s}i": Fraction(1024) ** (i + 1) for i, s in enumerate("KMGTPE")},
}


def cpu_milli(written: QuantityValue) -> int:
    return to_amount(CPU, nano(written))


def whole(written: QuantityValue) -> int:
    return to_amount(MEMORY, nano(written))


@pytest.mark.parametrize(
    ("written", "milli"),
    [
        ("1", 1000),
        ("250m", 250),
        ("0.5", 500),
        (".5", 500),
        ("2.", 2000),
        ("+1", 1000),
        ("1e3", 1_000_000),
        ("1E-3", 1),
        ("1.5k", 1_500_000),
        ("100u", 1),
        ("1n", 1),
        ("0.1m", 1),
        ("1001u", 2),
        ("0", 0),
        ("-0", 0),
        (2, 2000),
        (0.1, 100),
        (1e-05, 1),
    ],
)
def test_cpu_is_in_milli_cores_rounded_up(written: str | float, milli: int) -> None:
    assert cpu_milli(written) == milli


@pytest.mark.parametrize(
    ("written", "units"),
    [
        ("1Ki", 1024),
        ("1.5Gi", 1536 * 2**20),
        ("128974848", 128974848),
        ("129e6", 129_000_000),
        ("129M", 129_000_000),
        ("128974848000m", 128974848),
        ("0.3Ki", 308),
        ("1E", None),
        ("110", 110),
        (4, 4),
    ],
)
def test_other_resources_are_whole_units(written: str | int, units: int | None) -> None:
    if units is None:
        with pytest.raises(InputError, match="at most"):
            whole(written)
    else:
        assert whole(written) == units


@pytest.mark.parametrize(
    "written",
    [
        "", " ", ".", "+", "-", "1 Gi", "1gi", "1KI", "1e", "1e+", "1.2.3", "one", "1i", "Gi",
        "0x10", "1_000", "١", "NaN", "inf", "1e3Ki", "1\n", "1" * 200, float("nan"), float("inf"),
    ],
)  # fmt: skip
def test_an_invalid_quantity_is_refused_with_its_value(written: str | float) -> None:
    with pytest.raises(InputError, match=r"expected a quantity such as 500m, 2 or 1\.5Gi"):
        nano(written)


@pytest.mark.parametrize("written", ["-1", "-1m", "-0.1", -3, -0.5])
def test_a_negative_quantity_is_refused(written: str | float) -> None:
    with pytest.raises(InputError, match="not negative"):
        whole(written)


@pytest.mark.parametrize("written", ["1e999999999", "9" * 100, "8193Ti", "1e" + "9" * 120])
def test_a_quantity_that_is_too_large_is_refused(written: str) -> None:
    # A power of ten with as many digits as the exponent says would take hours.
    with pytest.raises(InputError, match=f"at most {MAX_AMOUNT}"):
        whole(written)


def test_a_tiny_quantity_is_rounded_up() -> None:
    assert nano("1e-999999999") == 1
    assert cpu_milli("1e-999999999") == 1
    assert nano("0e999999999") == 0


@given(
    digits=st.from_regex(r"[0-9]{1,12}(\.[0-9]{0,12})?|\.[0-9]{1,12}", fullmatch=True),
    suffix=st.sampled_from(sorted(SUFFIXES)) | st.integers(-12, 12).map(lambda e: f"e{e}"),
)
def test_quantities_agree_with_exact_fractions(digits: str, suffix: str) -> None:
    scale = Fraction(10) ** int(suffix[1:]) if suffix[:1] == "e" else SUFFIXES[suffix]
    whole_part, _, fraction = digits.partition(".")
    exact = Fraction(int(f"0{whole_part}{fraction}"), 10 ** len(fraction)) * scale
    # The finest unit of Kubernetes is a billionth.
    exact = Fraction(math.ceil(exact * 10**9), 10**9)
    for count, unit in ((cpu_milli, 1000), (whole, 1)):
        if exact > MAX_AMOUNT or math.ceil(exact * unit) > MAX_AMOUNT:
            with pytest.raises(InputError):
                count(digits + suffix)
        else:
            assert count(digits + suffix) == math.ceil(exact * unit)


@given(st.text(max_size=30) | st.floats() | st.integers())
def test_any_text_or_number_is_a_quantity_or_raises_one_line(written: str | float) -> None:
    try:
        found = whole(written)
    except InputError as error:
        error_text = str(error)
    else:
        error_text = ""
        assert 0 <= found <= MAX_AMOUNT
    assert "\n" not in error_text
