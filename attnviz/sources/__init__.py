"""Where layers come from: each source is a dataclass of settings with `layers() -> list[Layer]`."""
