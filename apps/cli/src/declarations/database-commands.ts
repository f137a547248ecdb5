// Declares the commands that read or change stored sessions and the database: sessions, show, replay, stats, migrate,
// copy.

import type { Declaration } from "./declare.ts";
import type { Command } from "commander";
import type { SessionFilter } from "everturn/runtime";

import { Option } from "commander";

import { UsageError } from "../commands/context.ts";
import { collect, flag, positiveNumber, value, wholeNumber } from "./declare.ts";

const tenantFlags = "--tenant <name>";
const tenantHelp = "only this tenant; default: all tenants. '' is the tenant without a name";

const statuses = ["running", "waiting", "failed", "parked", "ended"] as const;

/** The filter of a list of sessions. */
function filterOf(command: Command): SessionFilter {
  const status = statuses.find((name) => name === value(command, "status"));
  const [engine, owner] = [value(command, "ofEngine"), value(command, "owner")];
  const pairs = repeatedValues(command, "metadata").map((pair): readonly [string, string] => {
    const [, name = "", text = ""] = /^([^=]+)=(.*)$/s.exec(pair) ?? [];
    if (name === "") throw new UsageError("--metadata must be name=value");
    return [name, text];
  });
  return {
    ...(status === undefined ? {} : { status }),
    ...(engine === null ? {} : { engine }),
    ...(owner === null ? {} : { owner }),
    ...(pairs.length === 0 ? {} : { metadata: Object.fromEntries(pairs) }),
  };
}

/** The values of an option that may be repeated. */
function repeatedValues(command: Command, name: string): readonly string[] {
  const given: unknown = command.getOptionValue(name);
  return Array.isArray(given) ? given.map(String) : [];
}

const sessions: Declaration = {
  name: "sessions",
  summary: "list, delete and fork sessions",
  description: "List, delete and fork the sessions in the database.",
  examples: [
    "everturn sessions",
    "everturn sessions --limit 5 --json",
    "everturn sessions --tenant shop --status waiting",
    "everturn sessions delete session-1a2b3c",
    "everturn sessions delete --tenant shop --owner ada",
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
          .option(tenantFlags, tenantHelp)
          .addOption(new Option("--status <status>", "only sessions with this status").choices(statuses))
          .option("--of-engine <name>", "only sessions of this engine")
          .option("--owner <name>", "only sessions of this user")
          .option("--metadata <name=value>", "only sessions with this metadata; may be repeated", collect)
          .option("--json", "print the page as one JSON object"),
      run: async (context, command) => {
        const { listSessions } = await import("../commands/sessions.ts");
        const limit = Number(command.getOptionValue("limit"));
        return listSessions(context, {
          limit,
          after: value(command, "after"),
          json: flag(command, "json"),
          filter: filterOf(command),
        });
      },
    },
    {
      name: "delete",
      description:
        "Delete sessions with all their messages and turns: those that are named, or all of a user or a tenant, whose stored keys are revoked.",
      declare: (command) =>
        command
          .argument("[id...]", "ids of sessions")
          .option(tenantFlags, tenantHelp)
          .option("--owner <name>", "all sessions of this user; needs --tenant")
          .option("--all", "all sessions of the tenant; needs --tenant"),
      run: async (context, command) => {
        const { deleteSessions } = await import("../commands/sessions.ts");
        return deleteSessions(context, {
          ids: command.args,
          owner: value(command, "owner"),
          all: flag(command, "all"),
        });
      },
    },
    {
      name: "fork",
      description: "Copy a session, or its first messages, into a new session, and print the new id.",
      declare: (command) =>
        command
          .argument("<id>", "the id of the session to copy")
          .option("--id <id>", "the id of the new session; default: a random id")
          .option(tenantFlags, tenantHelp)
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
      .option(tenantFlags, tenantHelp)
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
      .option(tenantFlags, tenantHelp)
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

const recover: Declaration = {
  name: "recover",
  summary: "end or restart a parked turn, or make a failed session usable",
  description:
    "Ends a parked turn, restarts its step, or makes a session usable whose turn failed. Calls no model: workers (everturn serve, everturn work) drive the turn. everturn show says what is parked and why.",
  examples: ["everturn recover session-1a2b3c --from-step", "everturn recover session-1a2b3c --tenant shop"],
  declare: (command) =>
    command
      .argument("<session>", "the id of the session, or its beginning")
      .option("--from-step", "restart the open step of a parked turn; effects without a recorded result may run twice")
      .option(tenantFlags, tenantHelp),
  run: async (context, command) => {
    const [id = ""] = command.args;
    const { recover } = await import("../commands/repair.ts");
    return recover(context, { id, fromStep: flag(command, "fromStep") });
  },
};

const cancel: Declaration = {
  name: "cancel",
  summary: "cancel the open turn of a session",
  description: "Cancel the open turn of a session, whichever process drives it, and also if none does.",
  examples: ['everturn cancel session-1a2b3c --reason "the customer hung up"'],
  declare: (command) =>
    command
      .argument("<session>", "the id of the session, or its beginning")
      .option("--reason <text>", "the reason, stored with the turn")
      .option(tenantFlags, tenantHelp),
  run: async (context, command) => {
    const [id = ""] = command.args;
    const { cancel } = await import("../commands/repair.ts");
    return cancel(context, { id, reason: value(command, "reason") });
  },
};

const compact: Declaration = {
  name: "compact",
  summary: "have older messages of a session replaced by a summary, or undo it",
  description:
    "Request a compaction: before its next model call, the older messages of the session are replaced by a summary in requests. The session keeps them. Needs an engine with a contextPolicy.",
  examples: ['everturn compact session-1a2b3c --keep "order numbers"', "everturn compact session-1a2b3c --undo"],
  declare: (command) =>
    command
      .argument("<session>", "the id of the session, or its beginning")
      .option("--keep <text>", "what the summary has to keep")
      .addOption(new Option("--undo", "remove the newest summary: requests have its messages again").conflicts("keep"))
      .option(tenantFlags, tenantHelp),
  run: async (context, command) => {
    const [id = ""] = command.args;
    const { compact } = await import("../commands/compact.ts");
    return compact(context, { id, keep: value(command, "keep"), undo: flag(command, "undo") });
  },
};

const keys: Declaration = {
  name: "keys",
  summary: "create, list, rotate and revoke API keys, without a restart",
  description:
    "Manage the API keys that are stored in the database. everturn serve accepts them; a change is effective with the next request.",
  examples: [
    "everturn keys",
    "everturn keys create ada --tenant shop --scope read --scope write --expires 30d",
    "everturn keys rotate 1a2b3c4d5e6f7a8b --grace 1h",
    "everturn keys revoke 1a2b3c4d5e6f7a8b",
  ],
  commands: [
    {
      name: "list",
      isDefault: true,
      description: "List the keys, also expired and revoked ones, the newest first.",
      declare: (command) =>
        command.option(tenantFlags, tenantHelp).option("--json", "print the keys as one JSON object"),
      run: async (context, command) => {
        const { listKeys } = await import("../commands/keys.ts");
        return listKeys(context, { json: flag(command, "json") });
      },
    },
    {
      name: "create",
      description: "Create a key, and print its token, which is not shown again.",
      declare: (command) =>
        command
          .argument("<name>", "the identity of the caller: its sessions belong to this name")
          .option(tenantFlags, "the tenant of the caller; default: the tenant without a name")
          .option("--scope <scope>", "read, write, decide or admin; may be repeated; default: all", collect)
          .option("--of-engine <name>", "an engine that the caller may use; may be repeated; default: all", collect)
          .option("--operator", "the caller operates the server; without --tenant, in all tenants")
          .option("--context <json>", "the context that tools receive, as a JSON object")
          .option("--expires <time>", "for example 30d, 12h or 15m; default: until it is revoked")
          .option("--json", "print key and token as one JSON object"),
      run: async (context, command) => {
        const [name = ""] = command.args;
        const { createKey } = await import("../commands/keys.ts");
        return createKey(context, {
          name,
          scopes: repeatedValues(command, "scope"),
          engines: repeatedValues(command, "ofEngine"),
          operator: flag(command, "operator"),
          toolContext: value(command, "context"),
          expires: value(command, "expires"),
          json: flag(command, "json"),
        });
      },
    },
    {
      name: "rotate",
      description: "Create a key with the same name, rights and expiry, and end the old one.",
      declare: (command) =>
        command
          .argument("<id>", "the id of the key")
          .option("--grace <time>", "how long the old key stays valid, for example 1h; default: it ends at once")
          .option("--json", "print key and token as one JSON object"),
      run: async (context, command) => {
        const [id = ""] = command.args;
        const { rotateKey } = await import("../commands/keys.ts");
        return rotateKey(context, { id, grace: value(command, "grace"), json: flag(command, "json") });
      },
    },
    {
      name: "revoke",
      description: "Revoke keys: their next request is refused by every process.",
      declare: (command) => command.argument("<id...>", "ids of keys"),
      run: async (context, command) => {
        const { revokeKeys } = await import("../commands/keys.ts");
        return revokeKeys(context, command.args);
      },
    },
  ],
};

const audit: Declaration = {
  name: "audit",
  summary: "read and export the audit log: decisions, cancels, deletions, exports, keys",
  description: "Read the audit log, newest first, or export it, oldest first, as lines of JSON.",
  examples: ["everturn audit --tenant shop", "everturn audit --export audit.jsonl"],
  declare: (command) =>
    command
      .option("-n, --limit <n>", "the largest number of rows", positiveNumber, 50)
      .option(tenantFlags, tenantHelp)
      .option("--session <id>", "only rows of this session")
      .option("--actor <name>", "only rows of this actor")
      .option("--action <name>", "only rows of this action, such as approve or delete")
      .option("--json", "print the rows as one JSON object")
      .addOption(
        new Option("--export <file>", "write all rows to a file, as lines of JSON; - is standard output").conflicts(
          "json",
        ),
      ),
  run: async (context, command) => {
    const { audit } = await import("../commands/audit.ts");
    return audit(context, {
      limit: Number(command.getOptionValue("limit")),
      session: value(command, "session"),
      actor: value(command, "actor"),
      action: value(command, "action"),
      json: flag(command, "json"),
      exportTo: value(command, "export"),
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

export const sessionCommands: readonly Declaration[] = [sessions, show, replay, recover, cancel, compact];

export const databaseCommands: readonly Declaration[] = [keys, audit, stats, migrate, copy];
