// MCP servers for tests: the reference server as a process, and a server of the current protocol version in this
// process.

import type { McpServer as ServerAddress } from "everturn/mcp";

import { createRequire } from "node:module";

import { acceptedContent, createMcpHandler, inputRequired, McpServer } from "@modelcontextprotocol/server";
import { z } from "zod";

const require = createRequire(import.meta.url);

/** The program of the reference server. */
export const everythingProgram: string = require.resolve("@modelcontextprotocol/server-everything/dist/index.js");

/** The reference server over stdio. It speaks the protocol versions before 2026-07-28. */
export function everything(): ServerAddress {
  return { command: process.execPath, args: [everythingProgram, "stdio"] };
}

/**
 * A travel agency of protocol version 2026-07-28, over HTTP requests that do not leave the process. `log` lists what
 * its tools did.
 */
export class Agency {
  readonly log: string[] = [];
  /** The names of the tools; a change takes effect with the next request. */
  names: readonly string[] = ["book", "sleep", "ask.twice", "open", "think", "crash"];
  readonly #handler = createMcpHandler(() => this.#server());

  /** The address for a client. */
  get address(): ServerAddress {
    return { url: "http://agency.test/mcp", fetch: (url, init) => this.#handler.fetch(new Request(url, init)) };
  }

  /** Tells open subscriptions that the list of tools has changed. */
  toolsChanged(names: readonly string[]): void {
    this.names = names;
    this.#handler.notify.toolsChanged();
  }

  close(): Promise<void> {
    return this.#handler.close();
  }

  #server(): McpServer {
    const server = new McpServer(
      { name: "agency", version: "1.0.0" },
      { capabilities: { tools: { listChanged: true } }, instructions: "Be polite." },
    );
    const add = (name: string, register: () => void) => (this.names.includes(name) ? register() : undefined);
    add("book", () =>
      server.registerTool(
        "book",
        {
          description: "Books.",
          inputSchema: z.object({ city: z.string() }),
          outputSchema: z.object({ booked: z.string() }),
        },
        ({ city }, { mcpReq }) => {
          const { inputResponses } = mcpReq;
          this.log.push(`book ${city} ${JSON.stringify([mcpReq.requestState() ?? null, inputResponses ?? null])}`);
          const answer = acceptedContent<{ seats: number }>(inputResponses, "seats");
          if (answer !== undefined) {
            const booked = `${answer.seats} seats to ${city}`;
            return { content: [{ type: "text", text: booked }], structuredContent: { booked } };
          }
          const requestedSchema = z.object({ seats: z.int().min(1) });
          return inputRequired({
            inputRequests: { seats: inputRequired.elicit({ message: "How many seats?", requestedSchema }) },
            requestState: `state of ${city}`,
          });
        },
      ),
    );
    add("ask.twice", () =>
      server.registerTool(
        "ask.twice",
        { inputSchema: z.object({}), annotations: { readOnlyHint: true } },
        (_, { mcpReq }) => {
          const name = acceptedContent<{ name: string }>(mcpReq.inputResponses, "name");
          const consent = mcpReq.inputResponses?.["consent"];
          if (name !== undefined)
            return { content: [{ type: "text", text: `${name.name} ${JSON.stringify(consent)}` }] };
          return inputRequired({
            inputRequests: {
              name: inputRequired.elicit({ message: "Name?", requestedSchema: z.object({ name: z.string() }) }),
              consent: inputRequired.elicitUrl({ message: "Agree.", url: "https://agency.test/terms" }),
            },
          });
        },
      ),
    );
    add("sleep", () =>
      server.registerTool(
        "sleep",
        { inputSchema: z.object({}), annotations: { idempotentHint: true } },
        async (_, { mcpReq }) => {
          this.log.push("sleep");
          await new Promise<void>((resolve) => {
            mcpReq.signal.addEventListener("abort", () => resolve(), { once: true });
          });
          this.log.push("woken");
          return { content: [] };
        },
      ),
    );
    add("think", () =>
      server.registerTool("think", { inputSchema: z.object({}) }, (_, { mcpReq }) => {
        const responses = mcpReq.inputResponses;
        if (responses !== undefined) return { content: [{ type: "text", text: JSON.stringify(responses) }] };
        const messages = [{ role: "user" as const, content: { type: "text" as const, text: "Think." } }];
        return inputRequired({
          inputRequests: {
            thought: inputRequired.createMessage({ messages, maxTokens: 100 }),
            folders: inputRequired.listRoots(),
          },
        });
      }),
    );
    add("open", () =>
      server.registerTool("open", { inputSchema: z.object({}), annotations: { destructiveHint: false } }, () => ({
        content: [
          { type: "text", text: "a picture" },
          { type: "image", data: "aGk=", mimeType: "image/png" },
        ],
        structuredContent: { found: 1 },
      })),
    );
    add("crash", () =>
      server.registerTool("crash", { inputSchema: z.object({}) }, () => ({
        isError: true,
        content: [{ type: "text", text: "no such trip" }],
      })),
    );
    return server;
  }
}
