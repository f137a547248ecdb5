// Loads the SDK of Restate, an optional peer dependency: only service processes need it. A static import would fail
// with Node's ERR_MODULE_NOT_FOUND when `everturn/restate` is imported, also in web processes; loaded here, the error
// names the package to install.

import { EngineError } from "../../core/model/internal.ts";

/**
 * The SDK. Rejects with `EngineError` (`invalid_engine`) if it cannot be loaded, or if it would hang on this version of
 * the platform.
 */
export async function loadSdk() {
  // The SDK calls Promise.withResolvers when an invocation begins. Without that function the invocation neither answers
  // nor fails.
  if (!("withResolvers" in Promise)) {
    const message =
      "the Restate SDK needs Promise.withResolvers, which this platform does not have: use Node 22 or later for processes that Restate calls";
    throw new EngineError("invalid_engine", { message });
  }
  try {
    return await import("@restatedev/restate-sdk");
  } catch (cause) {
    const message = "the package @restatedev/restate-sdk cannot be loaded; run: npm install @restatedev/restate-sdk";
    throw new EngineError("invalid_engine", { message, cause });
  }
}

export type Sdk = Awaited<ReturnType<typeof loadSdk>>;
