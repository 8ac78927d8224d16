"""`lecturelib data`: see which data sets the course uses, and fetch them ahead of time."""

import argparse
from pathlib import Path


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register `data list` and `data fetch`."""
    parser = subparsers.add_parser(
        "data",
        help="list and fetch the data sets of the course",
        description="Every data set is fetched on first use, checked by its SHA-256 and kept in a cache folder "
        "(LECTURELIB_CACHE). For a classroom without a network, fetch into a folder with --to, carry it there, and "
        "set LECTURELIB_DATA to it.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="every data set with its size, licence and source")
    listing.set_defaults(run=run_list)
    fetching = actions.add_parser("fetch", help="bring data sets into the cache, or into a folder")
    fetching.add_argument(
        "names", nargs="*", metavar="NAME", help="data sets to fetch, as `lecturelib data list` names them"
    )
    fetching.add_argument("--all", action="store_true", help="fetch every data set")
    fetching.add_argument("--to", type=Path, metavar="FOLDER", help="also copy the files into this folder")
    fetching.set_defaults(run=run_fetch)


def run_list(arguments: argparse.Namespace) -> int:
    """Print one paragraph a data set."""
    from lecturelib.data.store.fetching import human_size
    from lecturelib.data.store.registry import DATA_SETS
    from lecturelib.machine.caches import cache_folder

    for data_set in DATA_SETS.values():
        size = human_size(data_set.size) if data_set.routes else "nothing to fetch"
        print(f"{data_set.name}  ({size})")
        print(f"    {data_set.summary}")
        print(f"    source:  {data_set.source}")
        print(f"    licence: {data_set.licence}")
    print(f"\nFetched files are kept in {cache_folder()}")
    return 0


def run_fetch(arguments: argparse.Namespace) -> int:
    """Fetch the sets asked for, after checking all their names."""
    from lecturelib.data.store.fetching import fetch, fetch_to
    from lecturelib.data.store.registry import DATA_SETS, find
    from lecturelib.data.store.sources import FetchError

    if bool(arguments.names) == arguments.all:
        raise ValueError("name the data sets to fetch, or say --all (`lecturelib data list` shows them)")
    data_sets = list(DATA_SETS.values()) if arguments.all else [find(name) for name in arguments.names]
    failures = []
    for data_set in data_sets:
        try:
            files = (
                list(fetch(data_set.name).values()) if arguments.to is None else fetch_to(data_set.name, arguments.to)
            )
        except FetchError as error:  # the others may well arrive
            failures.append(str(error))
            continue
        for path in files:
            print(path)
        if not files:
            print(f"{data_set.name}: nothing to fetch ({data_set.source})")
    if failures:
        raise FetchError(" ".join(failures))
    return 0
