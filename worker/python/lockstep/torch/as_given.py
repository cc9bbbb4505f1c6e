"""What compile() gives back: a function for a function, for a module one of its class."""

from __future__ import annotations

import functools
import inspect
import types
from abc import ABCMeta
from typing import Any, Dict, Optional, Type

import torch


def as_given(model: Any, agreed: Any) -> Any:
    """`model`, called through `agreed`, which it has as an attribute."""
    if not isinstance(model, torch.nn.Module):
        return _function(model, agreed)
    kind: Any = type(model)
    return _class_like(kind)(model, agreed)


def outside(function: Any, name: str, called: str, file: str, line: int) -> Any:
    """The same with a code of its own, in no file of this package, which torch.compile leaves alone. `called`: by reports."""
    code = function.__code__.replace(co_name=name, co_filename=file, co_firstlineno=line)
    if hasattr(code, "co_qualname"):
        code = code.replace(co_qualname=called)
    return types.FunctionType(code, function.__globals__, name, None, function.__closure__)


def _function(model: Any, agreed: Any) -> Any:
    is_compiling = torch.compiler.is_compiling

    def call(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():  # within another function that is compiled
            return model(*args, **kwargs)
        return agreed(*args, **kwargs)
    made: Any = functools.update_wrapper(outside(call, "call", "call", f"<{agreed.name}>", 1), model, updated=())
    made.agreed = agreed
    return made


def _plain(module: Any) -> Any:
    return module


class _Module(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """A module with the parameters and attributes of the compiled one, which is `_orig_mod`. Copies, and what
    is saved of it, are of that one, not compiled."""

    def __init__(self, module: torch.nn.Module, agreed: Any) -> None:
        torch.nn.Module.__init__(self)
        self._orig_mod = module
        self.training = module.training
        self.__dict__["agreed"] = agreed
        self.__dict__["_call"] = _function(module, agreed)

    def __init_subclass__(cls, **_: Any) -> None:
        """What the class of the compiled module does with its subclasses is not for this one."""

    def __getattr__(self, name: str) -> Any:
        try:
            return torch.nn.Module.__getattr__(self, name)
        except AttributeError:
            return getattr(torch.nn.Module.__getattr__(self, "_orig_mod"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("__class__", "_orig_mod", "training") or "_orig_mod" not in self.__dict__.get("_modules", {}):
            torch.nn.Module.__setattr__(self, name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _plain, (self._orig_mod,)


def _forward(self: Any, /, *args: Any, **kwargs: Any) -> Any:
    return self._call(*args, **kwargs)


class _Of:
    """An attribute of the class of the compiled module: of the module itself, where it is asked for on an instance."""

    def __init__(self, kind: Type[Any], name: str) -> None:
        self._kind, self._name = kind, name

    def __get__(self, module: Optional[_Module], owner: Any = None) -> Any:
        return getattr(self._kind if module is None else module._orig_mod, self._name)

    def __set__(self, module: _Module, value: Any) -> None:
        setattr(module._orig_mod, self._name, value)


#: Names of a class that each class has of its own.
_OWN = frozenset(("__dict__", "__weakref__", "__module__", "__doc__", "__qualname__", "__slots__", "__annotations__",
                  "__orig_bases__", "__parameters__", "__abstractmethods__", "_abc_impl"))


@functools.lru_cache(maxsize=None)
def _class_like(kind: Any) -> Type[_Module]:
    """_Module, with instances that are of `kind`, too: what `kind` adds to torch.nn.Module is that of the compiled module, and
    what it changes there is as torch.nn.Module has it, so that parameters have the names that they have under
    torch.compile."""
    sharded: Any = getattr(getattr(torch.distributed, "fsdp", None), "FSDPModule", ())
    kind = next(base for base in kind.__mro__ if not issubclass(base, sharded))  # of which torch would find two
    if type(kind) not in (type, ABCMeta):
        return _plainly()
    names: Dict[str, Any] = {
        name: inspect.getattr_static(_Module, name) if hasattr(_Module, name) else _Of(kind, name)
        for base in kind.__mro__ if base not in torch.nn.Module.__mro__ for name in vars(base) if name not in _OWN}
    names.update(forward=functools.update_wrapper(_at_forward(), kind.forward, updated=()), __module__=kind.__module__,
                 __qualname__=kind.__qualname__, __doc__=kind.__doc__)
    made: Type[_Module] = types.new_class(kind.__name__, (_Module, kind), {}, lambda body: body.update(names))
    return made


def _at_forward() -> Any:
    return outside(_forward, "forward", "forward", "<a compiled module>", 1)


@functools.lru_cache(maxsize=None)
def _plainly() -> Type[_Module]:
    return type("CompiledModule", (_Module,), {"forward": _at_forward()})
