// Declares the commands that read or change stored sessions and the database: sessions, show, replay, stats, migrate,
// copy.

import type { Declaration } from "./declare.ts";

import { Option } from "commander";

import { UsageError } from "../commands/context.ts";
import { flag, positiveNumber, value, wholeNumber } from "./declare.ts";

const sessions: Declaration = {
  name: "sessions",
  summary: "list, delete and fork sessions",
  description: "List, delete and fork the sessions in the database.",
  examples: [
    "everturn sessions",
    "everturn sessions --limit 5 --json",
    "everturn sessions delete session-1a2b3c",
    "everturn sessions fork session-1a2b3c --at 4",
  ],
  commands: [
    {
      name: "list",
      isDefault: true,
      description: "List sessions, those that changed last first.",
      declare: (command) =>
        command
          .option("-n, --limit <n>", "the largest number of sessions", positiveNumber, 20)
          .option("--after <cursor>", "continue after this cursor, printed by the previous page")
          .option("--json", "print the page as one JSON object"),
      run: async (context, command) => {
        const { listSessions } = await import("../commands/sessions.ts");
        const limit = Number(command.getOptionValue("limit"));
        return listSessions(context, { limit, after: value(command, "after"), json: flag(command, "json") });
      },
    },
    {
      name: "delete",
      description: "Delete sessions with all their messages and turns.",
      declare: (command) => command.argument("<id...>", "ids of sessions"),
      run: async (context, command) => {
        const { deleteSessions } = await import("../commands/sessions.ts");
        return deleteSessions(context, command.args);
      },
    },
    {
      name: "fork",
      description: "Copy a session, or its first messages, into a new session, and print the new id.",
      declare: (command) =>
        command
          .argument("<id>", "the id of the session to copy")
          .option("--id <id>", "the id of the new session; default: a random id")
          .option("--at <n>", "copy only the first n messages", wholeNumber),
      run: async (context, command) => {
        const [id = ""] = command.args;
        const { forkSession } = await import("../commands/sessions.ts");
        const at: unknown = command.getOptionValue("at");
        return forkSession(context, { id, as: value(command, "id"), at: typeof at === "number" ? at : null });
      },
    },
  ],
};

const show: Declaration = {
  name: "show",
  summary: "show a turn as a timeline: model calls, tools, tokens",
  description:
    "Show a turn as a timeline: model calls with their tokens, parallel tool calls, retries, waits and cost. Default: the newest turn.",
  examples: [
    "everturn show session-1a2b3c",
    "everturn show session-1a2b3c --all",
    "everturn show session-1a2b3c --export turn.json",
  ],
  declare: (command) =>
    command
      .argument("<session>", "the id of the session, or its beginning")
      .option("--turn <id>", "show this turn; the beginning of its id is enough")
      .addOption(new Option("--all", "show every turn of the session").conflicts("turn"))
      .option("--json", "print session, turns and usage as one JSON object")
      .option("--export <file>", "write the record of the turn to a file, for everturn replay; - is standard output"),
  run: async (context, command) => {
    const [id = ""] = command.args;
    const { show } = await import("../commands/show.ts");
    return show(context, {
      id,
      turn: value(command, "turn"),
      all: flag(command, "all"),
      json: flag(command, "json"),
      exportTo: value(command, "export"),
    });
  },
};

const replay: Declaration = {
  name: "replay",
  summary: "replay a recorded turn, or all open turns, without a model or tools",
  description:
    "Replay a recorded turn: no model is called and no tool is run. Exits with 1 if the replay differs from the record. With --open: replay every open turn of the database against the current engines, before a deploy; nothing is written. Exits with 1 if a turn could not be continued.",
  examples: [
    "everturn replay turn.json",
    "everturn replay session-1a2b3c --engine",
    "everturn replay --open --config everturn.config.ts",
    "cat turn.json | everturn replay -",
  ],
  declare: (command) =>
    command
      .argument(
        "[file-or-session]",
        "a file written by show --export, - for standard input, or the id of a session or its beginning",
      )
      .option("--turn <id>", "the turn of the session; default: the newest")
      .option("--engine", "replay with the current model, instructions and tools, and list what has changed")
      .addOption(
        new Option("--open", "replay all open turns of the database against the current engines").conflicts([
          "turn",
          "engine",
        ]),
      )
      .option("--json", "print the result as one JSON object"),
  run: async (context, command) => {
    const [source] = command.args;
    if (flag(command, "open")) {
      if (source !== undefined) throw new UsageError("--open replays all open turns; omit the file or session");
      const { replayOpen } = await import("../commands/replay-open.ts");
      return replayOpen(context, { json: flag(command, "json") });
    }
    if (source === undefined) throw new UsageError("name a file or a session, or use --open");
    const { replay } = await import("../commands/replay.ts");
    return replay(context, {
      source,
      turn: value(command, "turn"),
      engine: flag(command, "engine"),
      json: flag(command, "json"),
    });
  },
};

const stats: Declaration = {
  name: "stats",
  summary: "count open, waiting and parked turns; sizes of the tables",
  description:
    "Count open, due, parked and waiting turns of all tenants, and print the sizes of the tables. Reads at most 10,000 rows of an index and the 1,000 sessions that changed last; a number that reached its limit is a lower bound.",
  examples: ["everturn stats", "everturn stats --json --database postgres://app@db.example/app"],
  declare: (command) => command.option("--json", "print the result as one JSON object"),
  run: async (context, command) => {
    const { stats } = await import("../commands/stats.ts");
    return stats(context, { json: flag(command, "json") });
  },
};

const migrate: Declaration = {
  name: "migrate",
  summary: "create or migrate the tables of the database",
  description:
    "Create or migrate the tables of the database, and print their version. Other commands do so when they open the database; use this one if they may not create tables.",
  examples: ["everturn migrate --database postgres://owner@db.example/app", "everturn migrate --finalize"],
  declare: (command) =>
    command
      .option("--search <on|off>", "also create the search index of serve; default: on (EVERTURN_SEARCH)")
      .option("--json", "print the result as one JSON object")
      .option(
        "--finalize",
        "end a rolling upgrade: processes write the newest format of this release, which older releases cannot read",
      ),
  run: async (context, command) => {
    const { migrate } = await import("../commands/migrate.ts");
    const options = { json: flag(command, "json"), finalize: flag(command, "finalize") };
    return migrate(context, options);
  },
};

const copy: Declaration = {
  name: "copy",
  summary: "copy all sessions of a database into another one",
  description:
    "Copy all rows of a database into another one, and compare both by digest. A copy that was interrupted is resumed. Stop everything that writes to either of them first.",
  examples: ["everturn copy sessions.db postgres://app@db.example/app"],
  declare: (command) =>
    command
      .argument("<from>", "a SQLite file or a Postgres URL")
      .argument("<to>", "a SQLite file or a Postgres URL")
      .option("--json", "print the result as one JSON object"),
  run: async (context, command) => {
    const [from = "", to = ""] = command.args;
    const { copy } = await import("../commands/copy.ts");
    return copy(context, { from, to, json: flag(command, "json") });
  },
};

export const sessionCommands: readonly Declaration[] = [sessions, show, replay];

export const databaseCommands: readonly Declaration[] = [stats, migrate, copy];
