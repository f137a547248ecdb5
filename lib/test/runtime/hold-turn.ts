// A program for tests of takeovers: starts a turn whose model never answers, on the SQLite file of its first argument,
// prints `held` and stays.

import { engine } from "everturn";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";

const silent = {
  provider: "silent",
  stream: () => ({
    [Symbol.asyncIterator]: () => ({
      next: () => {
        process.stdout.write("held\n");
        return new Promise<never>(() => undefined);
      },
    }),
  }),
};
const sessions = runtime({
  host: sqliteStorage({ path: process.argv[2] ?? "" }),
  engines: { default: engine({ adapter: silent, model: "silent:m" }) },
});
await sessions.start("hi", { id: "s" });
