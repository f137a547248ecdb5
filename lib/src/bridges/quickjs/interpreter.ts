// Loads QuickJS compiled to WebAssembly, and limits the memory of an instance.

import type { QuickJSWASMModule } from "quickjs-emscripten-core";

const wasmPageBytes = 65_536;

/** Creates WebAssembly instances of the interpreter. */
export type Interpreter = { readonly newInstance: () => Promise<QuickJSWASMModule> };

/**
 * Loads the optional peer dependencies, and creates the first instance: the packages load and compile the rest of their
 * code with it, which takes ten times as long as a further instance. Rejects with the error of the platform if a
 * package is not installed.
 */
export async function loadInterpreter(): Promise<Interpreter> {
  const [core, variant] = await Promise.all([
    import("quickjs-emscripten-core"),
    import("@jitl/quickjs-singlefile-mjs-release-sync"),
  ]);
  const create = () => core.newQuickJSWASMModuleFromVariant(variant.default);
  let first: QuickJSWASMModule | null = await create();
  return {
    newInstance: async () => {
      const unused = first;
      first = null;
      return unused ?? create();
    },
  };
}

/**
 * Limits the growth of the WebAssembly memory to `maxBytes`, and calls `exceeded` when the interpreter asks for more.
 * QuickJS has a memory limit of its own, which does not work in its emscripten build.
 */
export function limitMemory(instance: QuickJSWASMModule, maxBytes: number, exceeded: () => void): void {
  const memory = instance.getWasmMemory();
  const grow = memory.grow.bind(memory);
  const limited = (pages: number): number => {
    if (memory.buffer.byteLength + pages * wasmPageBytes <= maxBytes) return grow(pages);
    exceeded();
    throw new RangeError("memory limit");
  };
  Object.defineProperty(memory, "grow", { value: limited });
}
