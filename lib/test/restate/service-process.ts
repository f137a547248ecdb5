// What the service processes of the tests with Restate have in common: they serve their sessions until the parent
// process sends a message or ends.

import type { RestateService } from "everturn/restate";
import type { Runtime } from "everturn/runtime";

import { serveRestate } from "everturn/restate";

/** How often the sweeper runs, in milliseconds. */
export const sweepMs = 1000;

type ServiceProcess = {
  readonly sessions: Runtime;
  readonly port: string;
  /** The address of Restate for requests. */
  readonly ingress: string;
  /** How long turns may go on after the stop message. */
  readonly graceMs: number;
  /** Closes the storage. */
  readonly close: () => Promise<void>;
  /** Services of the user. Default: none. */
  readonly services?: readonly RestateService[];
};

/**
 * Serves the sessions, and tells the parent process when they are served. On a message it hands its turns over and
 * ends.
 */
export async function serveUntilStopped(options: ServiceProcess): Promise<void> {
  const { sessions, port, ingress, graceMs, close, services = [] } = options;
  const server = await serveRestate({
    sessions,
    services,
    port: Number(port),
    restate: { ingress },
    sweepMs,
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
