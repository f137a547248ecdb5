// The program that runs in workerd: the scenes, and sessions over HTTP with a provider. As in a deployment, one handler
// is created while the module loads, when workerd allows neither I/O nor random numbers, one is created with the
// environment of a request, and one is in a durable object.

import type { Stage } from "./scenes.ts";

import { engine, fake } from "everturn";
import { createHandler } from "everturn/http";
import { memoryStorage, runtime } from "everturn/runtime";

import { agentOf, play } from "./scenes.ts";

type Handler = (request: Request) => Promise<Response>;

/** The environment that the test passes to the worker. */
type Environment = Stage & {
  readonly pageOrigin: string;
  readonly token: string;
  readonly KEEPER: { readonly getByName: (name: string) => { readonly fetch: Handler } };
};

const hello = fake({ script: [{ type: "text", text: "Hello from the edge." }] });
const early = createHandler({
  sessions: runtime({ host: memoryStorage(), engines: { default: engine({ adapter: hello, model: "fake:m" }) } }),
  auth: [{ token: "early-0123456789abcdef" }],
  basePath: "/early",
});

function handlerOf(environment: Environment, basePath: string): Handler {
  const { pageOrigin, token } = environment;
  return createHandler({
    sessions: runtime({ host: memoryStorage(), engines: { default: agentOf(environment) } }),
    auth: [{ token }],
    basePath,
    origins: [pageOrigin],
    limits: { heartbeatMs: 200 },
    onError: (error) => console.error(error),
  });
}

let late: Handler | null = null;

/** A durable object with sessions that survive their requests. */
export class Keeper {
  readonly fetch: Handler;

  constructor(_state: unknown, environment: Environment) {
    this.fetch = handlerOf(environment, "/kept");
  }
}

/** The default export of the worker module, added by the test. */
export const worker = {
  fetch: async (request: Request, environment: Environment): Promise<Response> => {
    const { pathname } = new URL(request.url);
    if (pathname === "/scenes") return Response.json(await play(environment));
    if (pathname.startsWith("/early/")) return early(request);
    if (pathname.startsWith("/kept/")) return environment.KEEPER.getByName("all").fetch(request);
    late ??= handlerOf(environment, "");
    return late(request);
  },
};
