"""afflux diskio try: what a request takes of a disk, by a normaliser in a file."""

from afflux.cli.data_output import print_data
from afflux.cli.diskio_arguments import TryOptions
from afflux.cli.exit_codes import ExitCode
from afflux.cli.file_arguments import read_source
from afflux.cli.output_option import is_data
from afflux.cli.quantity_format import bytes_text
from afflux.cli.text_table import format_table
from afflux.model.disks import Bandwidth, VolumeIO
from afflux.model.errors import InputError
from afflux.normalisers.errors import NormaliserRefusedError
from afflux.normalisers.normaliser import load_normaliser
from afflux.normalisers.signatures import content_digest

VERSION = 1


def try_request(options: TryOptions) -> ExitCode:
    """Prints what the request states and what it takes."""
    if not options.rbps and not options.wbps:
        raise InputError("no request, expected --rbps or --wbps of more than 0")
    name, content = read_source(options.content)
    volume = VolumeIO(options.rbps, options.wbps, options.blocksize)
    try:
        normaliser = load_normaliser(content)
        estimate = normaliser.estimate(volume)
    except NormaliserRefusedError as error:
        raise InputError(f"{name}: {error}") from None
    has_fuel = normaliser.kind == "wasm"
    if is_data(options.output):
        answer = {
            "version": VERSION,
            "name": normaliser.name,
            "kind": normaliser.kind,
            "digest": content_digest(content),
            "request": {
                "read": volume.read,
                "write": volume.write,
                "blockSize": volume.block_bytes,
            },
            "taken": {
                "read": estimate.taken.read,
                "write": estimate.taken.write,
                "total": estimate.taken.total,
            },
            **({"fuel": estimate.fuel} if has_fuel else {}),
        }
        print_data(answer, options.output)
        return ExitCode.DONE
    stated = Bandwidth(volume.read, volume.write, volume.read + volume.write)
    rows = [["stated", *_cells(stated)], ["taken", *_cells(estimate.taken)]]
    print(format_table(["BYTES/S", "READ", "WRITE", "TOTAL"], rows))
    if has_fuel:
        print(f"fuel: {estimate.fuel}")
    if options.output == "wide":
        print(f"block size: {bytes_text(volume.block_bytes)}")
        print(
            format_table(
                ["KIND", "DIGEST", "NAME"],
                [[normaliser.kind, content_digest(content), normaliser.name]],
                right_align=False,
            )
        )
    return ExitCode.DONE


def _cells(bandwidth: Bandwidth) -> list[str]:
    return [str(bandwidth.read), str(bandwidth.write), str(bandwidth.total)]
