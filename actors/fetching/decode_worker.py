"""A process that decodes pictures: `python -m actors.fetching.decode_worker '{"width": 300, …}'`.

Started by `actors.fetching.decoders`.

On standard input come 8 bytes of length and a picture, again and again until the end; on standard output goes for
each the length of a JSON object and of the bytes that follow it (4 bytes each), the object, the bytes.
"""

import json
import resource
import struct
import sys
import warnings
from typing import BinaryIO

from actors.pictures import PictureError, render

LENGTH, ANSWER = struct.Struct(">Q"), struct.Struct(">II")


def serve(requests: BinaryIO, answers: BinaryIO, *, width: int | None, max_pixels: int) -> None:
    """Answer until `requests` ends."""
    while len(head := requests.read(LENGTH.size)) == LENGTH.size:
        picture = requests.read(LENGTH.unpack(head)[0])
        try:
            rendered = render(picture, width=width, max_pixels=max_pixels)
            said, data = {**rendered.facts._asdict(), "unchanged": rendered.data is None}, rendered.data or b""
        except PictureError as error:
            said, data = {"error_kind": error.kind, "error_message": str(error)}, b""
        except MemoryError:
            message = "decoding it takes more memory than is allowed"
            said, data = {"error_kind": "too_large", "error_message": message}, b""
        told = json.dumps(said).encode()
        answers.write(ANSWER.pack(len(told), len(data)) + told + data)
        answers.flush()


def main() -> None:
    """Serve this process's own standard input and output."""
    settings = json.loads(sys.argv[1])
    memory = settings.pop("memory_bytes")
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    serve(sys.stdin.buffer, sys.stdout.buffer, **settings)


if __name__ == "__main__":
    main()
