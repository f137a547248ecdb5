// What the service processes of the tests with Restate have in common: they serve their sessions until the parent process sends a message or ends.

import type { Runtime } from "everturn/runtime";

import { serveRestate } from "everturn/restate";

type ServiceProcess = {
  readonly sessions: Runtime;
  readonly port: string;
  /** The address of Restate for requests. */
  readonly ingress: string;
  /** How long turns may go on after the stop message. */
  readonly graceMs: number;
  /** Closes the storage. */
  readonly close: () => Promise<void>;
};

/** Serves the sessions, and tells the parent process when they are served. On a message it hands its turns over and ends. */
export async function serveUntilStopped({ sessions, port, ingress, graceMs, close }: ServiceProcess): Promise<void> {
  const server = await serveRestate({
    sessions,
    port: Number(port),
    restate: { ingress },
    sweepMs: 1000,
    onLog: () => undefined,
  });
  process.on("message", () => {
    void server
      .close({ graceMs })
      .then(close)
      .then(() => process.disconnect());
  });
  // Ends with its parent process.
  process.on("disconnect", () => process.exit(0));
  process.send?.("ready");
}
