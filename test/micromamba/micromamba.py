"""Plays micromamba, which neither PyPI nor Debian has: `--version` and `create`, over the solver of py-rattler.

It reads of environment.yml the list of dependencies, each a string. Like the real one it installs from the channels that
are named, and it ends with status 1 and the reason on stderr.
"""
import argparse
import asyncio
import os
import sys
from pathlib import Path

import rattler


def dependencies(text):
    lines, found = iter(text.splitlines()), []
    for line in lines:
        if line.startswith("dependencies:"):
            break
    for line in lines:
        if not line.lstrip().startswith("- "):
            break
        found.append(line.lstrip()[2:].strip())
    return found


async def create(args):
    if not args.offline:
        sys.exit("error    this micromamba knows --offline only")
    records = await rattler.solve(
        sources=[rattler.Channel(c) for c in args.channel],
        specs=[rattler.MatchSpec(d) for d in dependencies(Path(args.file).read_text())],
        platforms=["linux-64", "noarch"],
    )
    await rattler.install(records, target_prefix=args.prefix, cache_dir=Path(args.root_prefix) / "pkgs", show_progress=False)


def main():
    if sys.argv[1:] == ["--version"]:
        print("2.0-stand-in " + rattler.__version__)
        return
    parser = argparse.ArgumentParser(prog="micromamba")
    command = parser.add_subparsers(required=True).add_parser("create")
    for flag in ["--yes", "--no-rc", "--always-copy", "--offline", "--override-channels"]:
        command.add_argument(flag, action="store_true")
    for option in ["--root-prefix", "--prefix", "--file"]:
        command.add_argument(option, required=True)
    command.add_argument("--channel", action="append", default=[])
    status = 0
    try:
        asyncio.run(create(parser.parse_args()))
    except Exception as e:
        print(f"error    {e}", file=sys.stderr, flush=True)
        status = 1
    # The threads of rattler go on, and crash an interpreter that shuts down under them.
    os._exit(status)


main()
