"""This distribution's version, where every room can read it without importing the package's public face."""

__version__ = "0.1.0"
