// Runs a bundle in workerd, the runtime of Cloudflare Workers, on a loopback port.

import type { Bundle } from "./bundle.ts";

import { miniflare } from "./tools.ts";

export type RunningWorker = { readonly url: string; readonly close: () => Promise<void> };

/** Without `nodejs_compat`, no Node module is available. */
export async function openWorker(
  files: Bundle,
  bindings: { readonly [name: string]: string },
  compatibilityFlags: readonly string[] = [],
): Promise<RunningWorker> {
  const { Miniflare } = await miniflare();
  const worker = new Miniflare({
    modules: files.map(({ name, code }) => ({ type: "ESModule", path: name, contents: code })),
    compatibilityDate: "2026-07-01",
    compatibilityFlags,
    bindings,
    durableObjects: { KEEPER: { className: "Keeper" } },
    host: "127.0.0.1",
    port: 0,
  });
  try {
    const { origin } = await worker.ready;
    return { url: origin, close: () => worker.dispose() };
  } catch (error) {
    await worker.dispose();
    throw error;
  }
}
