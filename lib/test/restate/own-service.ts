// A service process with a handler of the user's own beside the services of the library: it calls sessions through its
// context.

import * as restate from "@restatedev/restate-sdk";
import { restateSession } from "everturn/restate";
import { runtime } from "everturn/runtime";

import { openStorage, slowAgent, WorldLog } from "../long/world.ts";
import { serveUntilStopped } from "./service-process.ts";

const [, , database = "", log = "", port = "", ingress = ""] = process.argv;

type Question = { readonly tenant: string; readonly id: string; readonly text: string };

const own = restate.service({
  name: "Own",
  handlers: {
    /** Starts a session, replies to it, and waits for both turns. */
    converse: async (context: restate.Context, { tenant, id, text }: Question) => {
      const session = restateSession(context, { tenant, id });
      const first = await session.start(`${text} 1`);
      const began = await first.result();
      const second = await session.reply(`${text} 2`);
      const ended = await session.result(second.turnId ?? "");
      return {
        turns: [first.turnId, second.turnId],
        statuses: [began.status, ended.status],
        texts: [began.text, ended.text],
        cancelled: await session.cancel(),
      };
    },
    /** Calls a session that does not exist. */
    refused: async (context: restate.Context, { tenant, id, text }: Question) => {
      try {
        await restateSession(context, { tenant, id }).reply(text);
        return { name: "none", code: 0 };
      } catch (error) {
        if (!(error instanceof restate.TerminalError)) throw error;
        return { name: error.name, code: error.code };
      }
    },
    /** Sends a message later. */
    later: async (context: restate.Context, input: Question & { readonly afterMs: number }) => {
      const { tenant, id, text, afterMs } = input;
      restateSession(context, { tenant, id }).sendLater(text, { afterMs });
    },
  },
});

const { storage, close } = await openStorage(database);
const engines = { default: slowAgent(new WorldLog(log)) };
const sessions = runtime({ host: storage, engines, drive: false, maxTakeovers: 50 });
await serveUntilStopped({ sessions, port, ingress, graceMs: 2000, close, services: [own] });
