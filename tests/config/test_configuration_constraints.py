"""What a configuration file says about constraints between pods."""

import json
from pathlib import Path

import pytest

from afflux.config import (
    Configuration,
    default_configuration,
    effective_configuration,
    read_configuration,
)
from afflux.kube.default_constraints import (
    SYSTEM_DEFAULTS,
    DefaultConstraint,
    DefaultConstraints,
)
from afflux.model.errors import InputError

HEADER = "apiVersion: afflux.dev/v1alpha1\nkind: AffluxConfiguration\n"
RACK = "{topologyKey: example.org/rack, maxSkew: 2, whenUnsatisfiable: DoNotSchedule"


def read(tmp_path: Path, content: str) -> Configuration:
    path = tmp_path / "afflux.yaml"
    path.write_text(HEADER + content)
    return read_configuration(str(path))


@pytest.mark.parametrize(
    "content", ["", "topologySpread: {}", "topologySpread: {defaultingType: System}"]
)
def test_pods_have_the_default_constraints_of_the_system(tmp_path: Path, content: str) -> None:
    configuration = read(tmp_path, content)
    assert configuration.default_constraints().of("afflux") == SYSTEM_DEFAULTS
    assert configuration.settings.default_constraints() == SYSTEM_DEFAULTS
    assert [(each.topology_key, each.max_skew) for each in SYSTEM_DEFAULTS] == [
        ("kubernetes.io/hostname", 3),
        ("topology.kubernetes.io/zone", 5),
    ]
    assert not any(each.required or each.needs_all_keys for each in SYSTEM_DEFAULTS)


def test_a_list_replaces_the_default_constraints_of_the_system(tmp_path: Path) -> None:
    zone = "{topologyKey: zone, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}"
    rack = f"{RACK}, minDomains: 4, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor}}"
    content = f"topologySpread: {{defaultingType: List, defaultConstraints: [{zone}, {rack}]}}"
    assert read(tmp_path, content).settings.default_constraints() == (
        DefaultConstraint("zone", 1),
        DefaultConstraint(
            "example.org/rack",
            2,
            required=True,
            min_domains=4,
            honors_affinity=False,
            honors_taints=True,
        ),
    )


def test_a_profile_may_have_default_constraints_of_its_own(tmp_path: Path) -> None:
    configuration = read(
        tmp_path,
        f"topologySpread: {{defaultingType: List, defaultConstraints: [{RACK}}}]}}\n"
        "profiles:\n"
        "  - {schedulerName: one}\n"
        "  - {schedulerName: two, topologySpread: {}}\n"
        "  - {schedulerName: three, topologySpread: {defaultingType: List}}\n",
    )
    found = configuration.default_constraints()
    assert found.of("one") == (DefaultConstraint("example.org/rack", 2, required=True),)
    assert found.of("two") == SYSTEM_DEFAULTS
    assert found.of("three") == ()
    # Pods of other schedulers are only counted where they run.
    assert found.of("other") == ()


def test_default_constraints_are_off_if_no_profile_has_any(tmp_path: Path) -> None:
    assert not read(tmp_path, "topologySpread: {defaultingType: List}").default_constraints()
    one_has = "topologySpread: {defaultingType: List}\nprofiles: [{topologySpread: {}}]"
    assert read(tmp_path, one_has).default_constraints()
    assert default_configuration().default_constraints()
    assert DefaultConstraints()


def test_the_effective_configuration_has_constraints_and_weight(tmp_path: Path) -> None:
    content = (
        f"topologySpread: {{defaultingType: List, defaultConstraints: [{RACK}}}]}}\n"
        "podAffinity: {hardPodAffinityWeight: 0}\n"
        "profiles: [{schedulerName: one, topologySpread: {}}, {schedulerName: two}]\n"
    )
    configuration = read(tmp_path, content)
    shown = effective_configuration(configuration)
    assert shown["podAffinity"] == {"hardPodAffinityWeight": 0}
    path = tmp_path / "again.json"
    path.write_text(json.dumps(shown))
    again = read_configuration(str(path))
    assert again.default_constraints() == configuration.default_constraints()
    assert effective_configuration(again) == shown


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "topologySpread: {defaultingType: Cluster}",
            "topologySpread.defaultingType: 'Cluster', expected System or List",
        ),
        (
            f"topologySpread: {{defaultConstraints: [{RACK}}}]}}",
            "topologySpread.defaultConstraints: given, expected none since defaultingType is"
            " System",
        ),
        (
            "topologySpread: {defaultingType: List, defaultConstraints: [{topologyKey: a/b/c,"
            " maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]}",
            "topologySpread.defaultConstraints[0].topologyKey: 'a/b/c', expected a label of nodes:",
        ),
        (
            "topologySpread: {defaultingType: List, defaultConstraints: [{topologyKey: zone,"
            " maxSkew: 0, whenUnsatisfiable: DoNotSchedule}]}",
            "topologySpread.defaultConstraints[0].maxSkew: 0, expected a whole number from 1",
        ),
        (
            "topologySpread: {defaultingType: List, defaultConstraints: [{topologyKey: zone,"
            " maxSkew: 1, whenUnsatisfiable: Never}]}",
            "topologySpread.defaultConstraints[0].whenUnsatisfiable: 'Never', expected"
            " DoNotSchedule or ScheduleAnyway",
        ),
        (
            "topologySpread: {defaultingType: List, defaultConstraints: [{topologyKey: zone,"
            " maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}]}",
            "topologySpread.defaultConstraints[0].minDomains: 2, expected none except for"
            " DoNotSchedule",
        ),
        (
            f"topologySpread: {{defaultingType: List, defaultConstraints: [{RACK}, minDomains: 0}}"
            "]}",
            "topologySpread.defaultConstraints[0].minDomains: 0, expected a whole number from 1",
        ),
        (
            "topologySpread: {defaultingType: List, defaultConstraints:"
            f" [{RACK}, nodeTaintsPolicy: Maybe}}]}}",
            "topologySpread.defaultConstraints[0].nodeTaintsPolicy: 'Maybe', expected Honor or"
            " Ignore",
        ),
        (
            f"profiles: [{{topologySpread: {{defaultingType: List, defaultConstraints: [{RACK}}},"
            f" {RACK}}}]}}}}]",
            "profiles[0].topologySpread.defaultConstraints[1].topologyKey: 'example.org/rack',"
            " expected a key that defaultConstraints[0] with DoNotSchedule has not",
        ),
        (
            "topologySpread: {defaultingType: List, defaultConstraints: [{topologyKey: zone,"
            " maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}",
            "topologySpread.defaultConstraints[0].labelSelector: unknown field; expected one of"
            " topologyKey",
        ),
        (
            "topologySpread: {defaultingType: List, defaultConstraints: [{topologyKey: zone}]}",
            "topologySpread.defaultConstraints[0].maxSkew: missing, expected a value",
        ),
        (
            "podAffinity: {hardPodAffinityWeight: 101}",
            "podAffinity.hardPodAffinityWeight: 101, expected a whole number from 0 to 100",
        ),
        (
            "podAffinity: {hardPodAffinityWeight: -1}",
            "podAffinity.hardPodAffinityWeight: -1, expected a whole number from 0 to 100",
        ),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(
    tmp_path: Path, content: str, message: str
) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path, content)
    assert str(error.value).startswith(f"{tmp_path / 'afflux.yaml'}: {message}")
