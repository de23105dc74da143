"""Let SGLang be imported where only the CPU build of torch is: stand-ins for compiled parts that are never called here."""

import importlib.util
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import SimpleNamespace

TRITON_PARTS = """
    language language.extra language.extra.libdevice runtime runtime.jit runtime.cache runtime.autotuner runtime.driver
    compiler compiler.compiler testing tools tools.tensor_descriptor backends backends.compiler
"""


class TorchvisionFinder:
    """The wheel of torchvision is a CUDA build whose operators do not load: declare the two that its import asks for."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target) if name == "torchvision" else None
        if spec is None or spec.loader is None:
            return None
        exec_module = spec.loader.exec_module

        def declare_and_exec(module):
            import torch

            library = sys._torchvision_library = torch.library.Library("torchvision", "FRAGMENT")
            for operator in ("nms", "qnms"):
                library.define(operator + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            exec_module(module)

        spec.loader.exec_module = declare_and_exec
        return spec


class TritonFinder:
    """No triton kernel runs on the CPU, but SGLang imports triton all over: serve SGLang's own mock of it (for Apple's GPUs)."""

    def __init__(self, sglang):
        self._stubs_file = Path(sglang).with_name("_platform_stubs.py")
        self._stubs = None

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != "triton":
            return None
        if self._stubs is None:
            self._stubs = self._build()
        module = sys.modules.get(name)
        if module is None:  # `or` would not do: a mock is false
            module = self._stubs._MockModule(name)
        loader = SimpleNamespace(create_module=lambda spec: module, exec_module=lambda module: None)
        # On the module too: else importlib takes the mock's own spec, which has no loader.
        module.__spec__ = ModuleSpec(name, loader, is_package=True)
        return module.__spec__

    def _build(self):
        spec = importlib.util.spec_from_file_location("_sglang_platform_stubs", self._stubs_file)
        stubs = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(stubs)
        triton = stubs._make_mock("triton")
        triton.__version__ = "3.0.0"
        triton.cdiv, triton.next_power_of_2, triton.Config = stubs._cdiv, stubs._next_power_of_2, stubs._Config
        for name in TRITON_PARTS.split():
            parent, _, child = f"triton.{name}".rpartition(".")
            setattr(sys.modules[parent], child, stubs._make_mock(f"triton.{name}"))

        def put(module, *names, value=None, base=stubs._StubBase):
            for name in names:
                setattr(sys.modules[f"triton.{module}"], name, value or type(name, (base,), {}))

        class constexpr:
            def __init__(self, value=None):
                self.value = value

        put("language", "constexpr", value=constexpr)
        put("language", "dtype", base=object)
        put("runtime.jit", "JITFunction", "KernelInterface")
        put("runtime.cache", "triton_key", value=stubs._triton_key)
        put("runtime.autotuner", "OutOfResources", base=Exception)
        put("compiler.compiler", "triton_key", value=stubs._triton_key)
        put("compiler", "CompiledKernel", "ASTSource")
        put("backends.compiler", "GPUTarget")
        return stubs


sys.meta_path.insert(0, TorchvisionFinder)
sglang = PathFinder.find_spec("sglang")
if sglang is not None and PathFinder.find_spec("triton") is None:
    sys.meta_path.append(TritonFinder(sglang.origin))
