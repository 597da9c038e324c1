"""Reads an argument or a setting that is an analyzer or a preset's name."""

from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.text.analyzer import Analyzer

__all__ = ["read_analyzer"]


def read_analyzer(argument: str, given: object) -> Analyzer | None:
    """Return the analyzer that is given, or that has the given name; None for None."""
    if given is None or isinstance(given, Analyzer):
        return given
    if not isinstance(given, str):
        wish = "an hr.Analyzer or the name of a preset"
        raise error(DTypeError, argument, wish, type(given).__name__)
    try:
        return Analyzer(given)
    except OptionError as fault:
        made = OptionError(str(fault).replace("name", argument, 1))
        made.argument = argument
        raise made from None
