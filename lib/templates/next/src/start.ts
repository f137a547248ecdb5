// Opens the sessions when the server starts, and hands open turns over when it stops.

import { close } from "./sessions.ts";

for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void close());
