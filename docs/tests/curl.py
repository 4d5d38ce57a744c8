"""Stands in for curl where there is none: `curl -s [-X METHOD] [-H HEADER] [-d BODY] URL`."""

import argparse
import sys
import urllib.error
import urllib.request


def main() -> int:
    """Print the answer's body, whatever its status; 7 when nobody answers, as curl says it."""
    parser = argparse.ArgumentParser(prog="curl")
    parser.add_argument("-s", action="store_true")
    parser.add_argument("-X", dest="method")
    parser.add_argument("-H", dest="headers", action="append", default=[])
    parser.add_argument("-d", dest="body")
    parser.add_argument("url")
    given = parser.parse_args()
    request = urllib.request.Request(
        f"http://{given.url.removeprefix('http://')}",
        data=None if given.body is None else given.body.encode(),
        headers=dict(header.split(": ", 1) for header in given.headers),
        method=given.method,
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request) as answer:
            body = answer.read()
    except urllib.error.HTTPError as error:
        body = error.read()
    except urllib.error.URLError:
        return 7
    sys.stdout.buffer.write(body)
    return 0


if __name__ == "__main__":
    sys.exit(main())
