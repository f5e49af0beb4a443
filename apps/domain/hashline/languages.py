"""Which language is a file written in? Its name decides."""

from __future__ import annotations

_BY_EXTENSION = {
    "python": "py pyi",
    "javascript": "js jsx mjs cjs",
    "typescript": "ts mts cts",
    "tsx": "tsx",
    "json": "json",
    "html": "html htm xhtml",
    "css": "css",
    "scss": "scss",
    "markdown": "md markdown mdx",
    "yaml": "yaml yml",
    "toml": "toml",
    "go": "go",
    "rust": "rs",
    "java": "java",
    "kotlin": "kt kts",
    "c": "c h",
    "cpp": "cc cpp cxx hpp hh",
    "csharp": "cs",
    "ruby": "rb",
    "php": "php",
    "bash": "sh bash zsh ksh",
    "sql": "sql",
    "xml": "xml xsl svg plist",
    "swift": "swift",
    "scala": "scala",
    "lua": "lua",
    "r": "r",
    "julia": "jl",
    "haskell": "hs",
    "ocaml": "ml",
    "elixir": "ex exs",
    "erlang": "erl",
    "clojure": "clj",
    "dart": "dart",
    "zig": "zig",
    "nix": "nix",
    "hcl": "tf hcl",
    "proto": "proto",
    "graphql": "graphql gql",
    "ini": "ini cfg conf",
    "properties": "properties",
    "vue": "vue",
    "svelte": "svelte",
    "astro": "astro",
}
_BY_NAME = {
    "makefile": "make",
    "cmakelists.txt": "cmake",
    ".bashrc": "bash",
    ".bash_profile": "bash",
    ".profile": "bash",
    ".zshrc": "bash",
    ".zprofile": "bash",
    ".kshrc": "bash",
}
_EXTENSIONS = {
    extension: language
    for language, extensions in _BY_EXTENSION.items()
    for extension in extensions.split()
}

LANGUAGES = frozenset({*_BY_EXTENSION, *_BY_NAME.values(), "dockerfile"})


def language_of(path: str) -> str | None:
    """Return the name of the language, or None for plain text and what is not known."""
    name = path.rpartition("/")[2].lower()
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name == "dockerfile" or name.startswith("dockerfile."):
        return "dockerfile"
    stem, _, extension = name.rpartition(".")
    return _EXTENSIONS.get(extension) if stem else None
