// A process of `npm run bench:restate`: a service that Restate calls, a worker, or a service that uses the SDK alone.

import * as restate from "@restatedev/restate-sdk";
import { postgresStorage } from "everturn/postgres";
import { serveRestate } from "everturn/restate";
import { runtime } from "everturn/runtime";

import { benchEngine, durableSteps } from "./restate-agent.ts";

const [, , kind = "", database = "", ingress = ""] = process.argv;

async function start(): Promise<string> {
  if (kind === "bare") {
    const bare = restate.object({
      name: "Bare",
      handlers: {
        // As many recorded steps as a turn has writes.
        run: async (context: restate.ObjectContext, text: string) => {
          for (let step = 0; step < durableSteps; step += 1) await context.run(`step ${step}`, () => ({ text, step }));
          return text;
        },
      },
    });
    const { createServer } = await import("node:http2");
    const handler = restate.createEndpointHandler({ services: [bare], logger: () => undefined });
    const server = createServer(handler);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    return `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`;
  }
  const host = postgresStorage({ url: database });
  const engines = { default: benchEngine() };
  if (kind === "restate") {
    const sessions = runtime({ host, engines, drive: false });
    return (await serveRestate({ sessions, restate: { ingress }, onLog: () => undefined })).url;
  }
  void runtime({ host, engines }).work({ concurrency: 64, signal: new AbortController().signal });
  return "";
}

const url = await start();
process.on("disconnect", () => process.exit(0));
process.send?.(url);
