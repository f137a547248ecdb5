// Starts the worker when the sources are run without a build. A worker thread does not inherit the TypeScript loader of
// its parent.

import { register } from "tsx/esm/api";

register();
await import("./cell-worker.ts");
