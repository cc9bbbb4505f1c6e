"""The results of compile(): a function for a function, a module for a module."""

from __future__ import annotations

import functools
import types
from typing import Any, Tuple, Type

import torch


def as_given(model: Any, agreed: Any) -> Any:
    """Returns a function, or a module if `model` is one, that calls `agreed` and has it as an attribute."""
    if not isinstance(model, torch.nn.Module):
        return _function(model, agreed)
    return _class_of(tuple(name for name in _CONTAINER if hasattr(type(model), name)))(model, agreed)


def outside(function: Any, name: str, called: str, file: str, line: int) -> Any:
    """Returns a copy of the function with a code object of its own, whose file is not in this package: torch.compile
    skips functions of this package. `called`: the copy's name in reports."""
    code = function.__code__.replace(co_name=name, co_filename=file, co_firstlineno=line)
    if hasattr(code, "co_qualname"):
        code = code.replace(co_qualname=called)
    return types.FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)


def _function(model: Any, agreed: Any, like: Any = None) -> Any:
    """Returns a function that calls `agreed`, with the signature of `like` (default: the model's)."""
    is_compiling = torch.compiler.is_compiling

    def call(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():  # this call is part of another function that torch.compile traces
            return model(*args, **kwargs)
        return agreed(*args, **kwargs)
    made: Any = functools.update_wrapper(outside(call, "call", "call", f"<{agreed.name}>", 1),
                                         model if like is None else like, updated=())
    made.agreed = agreed
    return made


def _plain(module: Any) -> Any:
    return module


class CompiledModule(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """A module with the parameters, attributes and items of the module given to compile(), which is its `_orig_mod`, as
    in torch.compile. It is not an instance of that module's class, so that a search of modules() by class finds only
    `_orig_mod`. Its `forward` has the signature of `_orig_mod.forward`. Copying or saving it copies or saves
    `_orig_mod`, uncompiled."""

    def __init__(self, module: torch.nn.Module, agreed: Any) -> None:
        super().__init__()
        self._orig_mod = module
        self.training = module.training
        self.__dict__["agreed"] = agreed
        self.__dict__["forward"] = _function(module, agreed, module.forward)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN or "_orig_mod" not in self.__dict__.get("_modules", {}):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in _OWN:
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _plain, (self._orig_mod,)


_OWN = ("__class__", "_orig_mod", "training", "forward", "agreed")
#: The methods that make a module a container.
_CONTAINER = ("__len__", "__getitem__", "__setitem__", "__delitem__", "__iter__", "__contains__", "__reversed__")


def _getattr(self: Any, name: str) -> Any:
    try:
        return torch.nn.Module.__getattr__(self, name)
    except AttributeError:
        return getattr(torch.nn.Module.__getattr__(self, "_orig_mod"), name)


CompiledModule.__getattr__ = outside(_getattr, "__getattr__", "__getattr__", "<a compiled module>", 1)


@functools.lru_cache(maxsize=None)
def _class_of(container: Tuple[str, ...]) -> Type[CompiledModule]:
    """Returns the class of compiled modules that have the methods `container`."""
    def method(name: str) -> Any:
        def call(self: Any, *args: Any) -> Any:
            return getattr(self._orig_mod, name)(*args)
        return outside(call, name, name, "<a compiled module>", 1)
    return type("CompiledModule", (CompiledModule,), {name: method(name) for name in container}) if container else CompiledModule
