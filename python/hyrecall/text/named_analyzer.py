"""An analyzer, or the name of one, as an argument or a setting gives it."""

from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.text.analyzer import Analyzer

__all__ = ["read_analyzer"]


def read_analyzer(argument: str, given: object) -> Analyzer | None:
    """Read an analyzer or the name of one; None: none is given.

    Raises
    ------
    DTypeError, OptionError
        Neither, or an unknown name.
    """
    if given is None or isinstance(given, Analyzer):
        return given
    if not isinstance(given, str):
        wish = "an hr.Analyzer or the name of one"
        raise error(DTypeError, argument, wish, type(given).__name__)
    try:
        return Analyzer(given)
    except OptionError as fault:
        made = OptionError(str(fault).replace("name", argument, 1))
        made.argument = argument
        raise made from None
