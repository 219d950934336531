"""A process that decodes pictures: `python -m actors.fetching.decode_worker '{"width": 300, …}'`.

`actors.fetching.decoders` starts it. Each request on standard input is a letter (the operation), a length (8 bytes) and
a picture. Each answer on standard output is the lengths of a JSON object and a picture (4 bytes each), the object, and
the picture, either encoded or as pixels.
"""

import json
import resource
import struct
import sys
import warnings
from functools import partial
from typing import Any, BinaryIO

from actors.pictures import PictureError, decode_rgb, render

LENGTH, ANSWER = struct.Struct(">cQ"), struct.Struct(">II")
RENDER, DECODE = b"r", b"d"  # the result of `render`, or of `decode_rgb`


def serve(requests: BinaryIO, answers: BinaryIO, *, width: int | None, max_pixels: int) -> None:
    """Answer each request until `requests` ends."""
    makers = {RENDER: partial(_rendered, width=width, max_pixels=max_pixels), DECODE: partial(_decoded, max_pixels)}
    while len(head := requests.read(LENGTH.size)) == LENGTH.size:
        operation, length = LENGTH.unpack(head)
        picture = requests.read(length)
        try:
            header, data = makers[operation](picture)
        except PictureError as error:
            header, data = {"error_kind": error.kind, "error_message": str(error)}, b""
        except MemoryError:
            message = "decoding takes more memory than allowed"
            header, data = {"error_kind": "too_large", "error_message": message}, b""
        encoded = json.dumps(header).encode()
        answers.write(ANSWER.pack(len(encoded), len(data)) + encoded + data)
        answers.flush()


def _rendered(picture: bytes, *, width: int | None, max_pixels: int) -> tuple[dict[str, Any], bytes]:
    rendered = render(picture, width=width, max_pixels=max_pixels)
    return {**rendered.facts._asdict(), "unchanged": rendered.data is None}, rendered.data or b""


def _decoded(max_pixels: int, picture: bytes) -> tuple[dict[str, Any], bytes]:
    decoded = decode_rgb(picture, max_pixels=max_pixels)
    return {"width": decoded.width, "height": decoded.height}, decoded.tobytes()


def main() -> None:
    """Serve standard input and output."""
    settings = json.loads(sys.argv[1])
    memory = settings.pop("memory_bytes")
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    serve(sys.stdin.buffer, sys.stdout.buffer, **settings)


if __name__ == "__main__":
    main()
