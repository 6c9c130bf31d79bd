"""The registration of an operator with torch.library: its kernel, its fake kernel, its backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from tilegen.errors import CallError, Diagnostic, EnvironmentLack
from tilegen.gpu.call.arrays import Seen
from tilegen.operators.gradients import check_needs, compute_gradients, gradient_of, refuse_grad
from tilegen.operators.planning import Operator, plan_operator
from tilegen.operators.signature import OperatorSignature, check_tensors, form_results, qualify_name, refuse
from tilegen.operators.sizes import TensorForm
from tilegen.pipeline import Source

Backward = Source | Callable[..., Any]
_GUARDED = "AutogradCUDA"
_guards: dict[str, Any] = {}  # by operator, the library that refuses gradients: it holds while it is held


def torch_op(
    name: str, spec: Source, backward: Backward | Sequence[Backward] | None = None, *, arch: str | None = None,
    params: Mapping[str, int | float] | None = None, check_values: bool = False,
) -> Any:  # fmt: skip
    """An operator of torch that launches a spec's kernel, or all of its passes in order:
    ``torch_op("mine::rmsnorm", "rmsnorm.yaml")(x, w)``.

    ``name`` is ``namespace::name``; without a namespace it is ``tilegen``'s. The operator takes the spec's global
    buffers as tensors, in order, except those that are only written: it returns these. Tensors that are read and
    written are changed, and so are those that are ``partial``. Parameters that no tensor says come by keyword.

    ``backward``: a spec whose buffers are named as the forward's, and ``dY`` for the gradient of Y; or a function that
    takes these by keyword and returns gradients by name; or a list of such, which run in order. ``arch`` and ``params``
    are those of ``load``, for all specs; by default each GPU gets code of its own. ``check_values`` is that of
    ``compile``, also for all: such an operator waits for the device, and no CUDA graph takes it.

    A kernel is proved and compiled when the first tensor of a kind of GPU comes. Returns what
    ``torch.library.custom_op`` returns; a name that was registered before is registered anew. Raises what ``load``
    raises, EnvironmentLack TG506 without PyTorch, and CallError TG715 for what is no operator, or no backward of it.
    Calls raise CallError (TG7xx), and what ``compile`` raises.
    """
    torch = load_torch()
    parts = () if backward is None else backward if isinstance(backward, list | tuple) else (backward,)
    return register(torch, plan_operator(qualify_name(name), spec, parts, arch, params, check_values))


def load_torch() -> Any:
    """The module ``torch``. Raises EnvironmentLack TG506 where it is not installed or does not start."""
    try:
        return import_module("torch")
    except Exception as error:  # a broken installation shows in many ways, all of them at import
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise EnvironmentLack(Diagnostic("TG506", f"PyTorch is not here: {said}", None, "pip install torch")) from None


def register(torch: Any, operator: Operator) -> Any:
    """The operator as torch has it, and before it those of its backward. Raises CallError TG715 for a dtype that torch
    lacks.
    """
    signature = operator.signature
    for array in signature.arrays:
        if not hasattr(torch, array.dtype):
            raise refuse(f"{signature.name}: torch has no {array.dtype}, which {array.name} holds", array.mark)
    _guards.pop(signature.name, None)  # the library of an operator of that name before this one, which ends with it
    runs = [register(torch, step) if isinstance(step, Operator) else step for step in operator.steps]
    made = torch.library.custom_op(
        signature.name, make_kernel_function(torch, operator), mutates_args=signature.changed, schema=signature.schema,
        tags=(torch.Tag.needs_exact_strides,),
    )  # fmt: skip
    made.register_fake(make_fake(torch, signature))
    if signature.changed or not signature.results:
        guard_gradients(torch, signature)
    else:
        setup_context, backward = make_backward(operator, runs)
        made.register_autograd(backward, setup_context=setup_context)
    return made


# ---------------------------------------------------------------- forward
def make_kernel_function(torch: Any, operator: Operator) -> Callable[..., Any]:
    """What runs over real tensors: the kernel of their GPU, on torch's current stream."""
    signature, kernels = operator.signature, operator.kernels
    is_capturing = torch.cuda.is_current_stream_capturing

    def launch(*tensors: Any, **params: Any) -> Any:
        device = next((int(t.get_device()) for t in tensors if t.is_cuda), -1)
        if device < 0:
            check_tensors(signature, [look_at(t) for t in tensors])  # which says of each that it is on no GPU
        given = {name: value for name, value in params.items() if value is not None}
        return kernels.find(device, is_capturing)(*tensors, **given)

    return launch


def look_at(tensor: Any) -> Seen:
    """A tensor, real or not, as its checks see it; sizes may be symbols, and there may be no memory."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    is_placed = tensor.device.type in ("cuda", "meta")
    return Seen(tuple(tensor.shape), tuple(tensor.stride()), dtype, 0 if is_placed else None, 0)


def make_fake(torch: Any, signature: OperatorSignature) -> Callable[..., Any]:
    """What runs while a graph is traced: results of the right form, dtype and device, of which nothing is computed."""
    dtypes = [getattr(torch, a.dtype) for a in signature.results]

    def fake(*tensors: Any, **params: Any) -> Any:
        seen = [look_at(t) for t in tensors]
        check_tensors(signature, seen)
        forms = form_results(
            signature, [TensorForm(s.shape, s.strides) for s in seen], params, torch.sym_min, torch.sym_max
        )
        made = tuple(
            torch.empty_strided(form.shape, form.strides, dtype=dtype, device=tensors[0].device)
            for form, dtype in zip(forms, dtypes, strict=True)
        )
        return (made[0] if len(made) == 1 else made) if made else None

    return fake


# ---------------------------------------------------------------- gradients
def make_backward(operator: Operator, runs: Sequence[Callable[..., Any]]) -> tuple[Callable[..., None], Any]:
    """What torch runs behind the forward, where a tensor requires grad, and in the backward."""
    signature, gradients = operator.signature, operator.gradients
    given, results = ([a.name for a in arrays] for arrays in (signature.given, signature.results))

    def name_needs(ctx: Any) -> list[str]:
        return [name for name, is_needed in zip(given, ctx.needs_input_grad, strict=False) if is_needed]

    def setup_context(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Mapping[str, Any] | None = None) -> None:
        check_needs(gradients, name_needs(ctx))
        outputs = output if isinstance(output, tuple) else (output,)
        tensors = dict(zip((*given, *results), (*inputs, *outputs), strict=True))
        ctx.save_for_backward(*(tensors[name] for name in gradients.saved))
        ctx.params = dict(keyword_only_inputs or {})

    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        known = dict(zip(gradients.saved, ctx.saved_tensors, strict=True))
        known |= {gradient_of(name): grad for name, grad in zip(results, grads, strict=True)}
        params = {name: value for name, value in ctx.params.items() if value is not None}
        found = compute_gradients(gradients, runs, known, params, name_needs(ctx))
        return tuple(found.get(gradient_of(name)) for name in given)

    return setup_context, backward


def guard_gradients(torch: Any, signature: OperatorSignature) -> None:
    """Let calls that would need a gradient fail before anything is written, where torch takes no backward.

    torch's own way would let them run, and leave the operator out of the gradient of what it changed.
    """
    namespace, _, name = signature.name.partition("::")
    overload = getattr(getattr(torch.ops, namespace), name).default
    library = torch.library.Library(namespace, "FRAGMENT")

    def pass_on(keys: Any, *tensors: Any, **params: Any) -> Any:
        if torch.is_grad_enabled():
            arrays = zip(signature.given, tensors, strict=True)
            found = [refuse_grad(signature, a) for a, tensor in arrays if tensor.requires_grad]
            if found:
                raise CallError(found)
        return overload.redispatch(keys & torch._C._after_autograd_keyset, *tensors, **params)

    library.impl(name, pass_on, _GUARDED, with_keyset=True)
    _guards[signature.name] = library
