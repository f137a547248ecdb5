// The search index of messages (option `search`): an FTS5 table that triggers on `entries` maintain, so that it is
// written in the transaction of the rows, also by processes that do not search.
//
// Tables
//   `<prefix>search`        FTS5: the tenant as one token, and the text of a message. `secure-delete`: the words of
//                           deleted messages leave the file
//   `<prefix>search_rows`   the key of the message of each row of the index. Row ids of `entries` may change when the
//                           file is compacted (VACUUM)
//   `<prefix>search_state`  one row: up to which key the messages that existed when the index was created are indexed
//
// The text of a message is the names of the tools that it calls and its content, or the texts of the parts of its
// content; the first 20,000 characters of it are indexed. Triggers of a release that left the names out are replaced;
// messages that were indexed before are found by their content alone. A value that is no JSON has none: the triggers
// cannot fail a commit. Large texts (`large-values.ts`) are rows of `large`, which a batch writes before the rows that
// refer to them.
//
// Invariants
//   1. A statement that searches names the tenant, and finds no message of another one.
//   2. A step of the indexing is one short transaction. Rows that a trigger has indexed are left out.

import type { StorageHit, StorageSearch } from "../../rows/internal.ts";
import type { CheckedStatement, SqliteDatabase, SqliteValue } from "./database.ts";

import { escapeText, unescapeText } from "../shared/text-escaping.ts";
import { field, integer } from "./database.ts";
import { inTransaction } from "./transaction.ts";

/** How many characters of a message are indexed. */
const maxTextLength = 20_000;

/** The index of one connection. */
export class SearchIndex {
  readonly #database: SqliteDatabase;
  readonly #prefix: string;
  #isComplete = false;

  /**
   * Creates the tables and triggers if they do not exist. Throws if the driver was built without FTS5. `readOnly`:
   * creates nothing.
   */
  constructor(database: SqliteDatabase, prefix: string, readOnly: boolean) {
    this.#database = database;
    this.#prefix = prefix;
    const exists = database.prepare("SELECT 1 FROM sqlite_master WHERE name = ?").get(`${prefix}search_state`);
    if (readOnly || (exists !== undefined && this.#hasTriggers())) return;
    inTransaction(
      database,
      () => database.exec("BEGIN IMMEDIATE"),
      () => {
        for (const name of ["search_insert", "search_update"]) {
          database.exec(`DROP TRIGGER IF EXISTS ${this.#name(name)}`);
        }
        for (const sql of this.#schema()) database.exec(sql);
      },
    );
  }

  /** Whether the triggers index what this release indexes. */
  #hasTriggers(): boolean {
    const trigger = this.#database
      .prepare("SELECT sql FROM sqlite_master WHERE name = ?")
      .get(`${this.#prefix}search_insert`);
    return String(field(trigger, "sql")).includes("toolCalls");
  }

  #schema(): readonly string[] {
    const entries = this.#name("entries");
    const [index, rows, state] = [this.#name("search"), this.#name("search_rows"), this.#name("search_state")];
    const idOf = (row: "old" | "new") =>
      `(SELECT "id" FROM ${rows} WHERE "tenant" = ${row}."tenant" AND "session" = ${row}."session" AND "position" = ${row}."position")`;
    const insert = `INSERT OR IGNORE INTO ${rows} ("tenant", "session", "position") VALUES (new."tenant", new."session", new."position");
      DELETE FROM ${index} WHERE rowid = ${idOf("new")};
      INSERT INTO ${index} (rowid, "tenant", "text") VALUES (${idOf("new")}, ${tenantToken("new")}, ${this.#textOf("new")});`;
    return [
      `CREATE VIRTUAL TABLE IF NOT EXISTS ${index} USING fts5("tenant", "text", tokenize = 'unicode61 remove_diacritics 2')`,
      `INSERT INTO ${index} (${index}, rank) VALUES ('secure-delete', 1)`,
      `CREATE TABLE IF NOT EXISTS ${rows} ("id" INTEGER PRIMARY KEY, "tenant" TEXT NOT NULL, "session" TEXT NOT NULL, "position" INTEGER NOT NULL, UNIQUE ("tenant", "session", "position")) STRICT`,
      `CREATE TRIGGER IF NOT EXISTS ${this.#name("search_insert")} AFTER INSERT ON ${entries} BEGIN ${insert} END`,
      `CREATE TRIGGER IF NOT EXISTS ${this.#name("search_update")} AFTER UPDATE ON ${entries} BEGIN ${insert} END`,
      `CREATE TRIGGER IF NOT EXISTS ${this.#name("search_delete")} AFTER DELETE ON ${entries} BEGIN
        DELETE FROM ${index} WHERE rowid = ${idOf("old")};
        DELETE FROM ${rows} WHERE "id" = ${idOf("old")};
      END`,
      `CREATE TABLE IF NOT EXISTS ${state} ("id" INTEGER PRIMARY KEY CHECK ("id" = 1), "tenant" TEXT NOT NULL, "session" TEXT NOT NULL, "position" INTEGER NOT NULL, "complete" INTEGER NOT NULL) STRICT`,
      `INSERT OR IGNORE INTO ${state} VALUES (1, '', '', -1, 0)`,
    ];
  }

  /** Indexes up to `limit` messages that are older than the index. Returns whether none is left. */
  step(limit: number, begin: () => unknown): boolean {
    if (this.#isComplete) return true;
    const state = this.#name("search_state");
    const where = `FROM ${this.#name("entries")} WHERE ("tenant", "session", "position") > (?, ?, ?) ORDER BY "tenant", "session", "position"`;
    this.#isComplete = inTransaction(this.#database, begin, () => {
      const [at] = this.#all(`SELECT "tenant", "session", "position", "complete" FROM ${state}`);
      if (integer(field(at, "complete")) === 1) return true;
      const after = keyIn(at);
      const [newest] = this.#all(`SELECT coalesce(max("id"), 0) AS id FROM ${this.#name("search_rows")}`);
      const [last] = this.#all(`SELECT "tenant", "session", "position" ${where} LIMIT 1 OFFSET ?`, ...after, limit - 1);
      this.#run(
        `INSERT OR IGNORE INTO ${this.#name("search_rows")} ("tenant", "session", "position") SELECT "tenant", "session", "position" ${where} LIMIT ?`,
        ...after,
        limit,
      );
      this.#run(
        `INSERT INTO ${this.#name("search")} (rowid, "tenant", "text") SELECT s."id", ${tenantToken("e")}, ${this.#textOf("e")} FROM ${this.#name("search_rows")} s JOIN ${this.#name("entries")} e ON e."tenant" = s."tenant" AND e."session" = s."session" AND e."position" = s."position" WHERE s."id" > ?`,
        integer(field(newest, "id")) ?? 0,
      );
      const isLast = last === undefined;
      const reached = isLast ? after : keyIn(last);
      this.#run(
        `UPDATE ${state} SET "tenant" = ?, "session" = ?, "position" = ?, "complete" = ?`,
        ...reached,
        isLast ? 1 : 0,
      );
      return isLast;
    });
    return this.#isComplete;
  }

  /** The messages that contain all words, newest first. The last word may be the beginning of one. */
  find({ tenant, words, limit }: StorageSearch): readonly StorageHit[] {
    // Words consist of letters and digits; the quotes make them strings in the syntax of FTS5 even if they are AND or
    // NEAR.
    const strings = words.map((word) => `"${word.replaceAll('"', "")}"`);
    if (strings.length === 0) return [];
    const token = `t${Buffer.from(escapeText(tenant)).toString("hex")}`;
    const match = `"tenant" : "${token}" AND "text" : (${strings.join(" AND ")}*)`;
    const [index, rows] = [this.#name("search"), this.#name("search_rows")];
    const found = this.#all(
      `SELECT s."session" AS session, s."position" AS position FROM ${index} JOIN ${rows} s ON s."id" = ${index}.rowid WHERE ${index} MATCH ? AND s."tenant" = ? ORDER BY ${index}.rowid DESC LIMIT ?`,
      match,
      escapeText(tenant),
      limit,
    );
    return found.map((row) => {
      return { session: unescapeText(String(field(row, "session"))), position: integer(field(row, "position")) ?? 0 };
    });
  }

  /** The expression of the text of a row of `entries`. */
  #textOf(row: "new" | "e"): string {
    const value = `${row}."value"`;
    const isLarge = `substr(${value}, 1, 6) = 'large:'`;
    const text = `CASE WHEN ${isLarge} THEN substr(${value}, 7) ELSE ${value} END`;
    // U+0000 would end the text.
    const withoutNul = `replace(${text}, '\\u0000', ' ')`;
    const valid = `CASE WHEN json_valid(${withoutNul}) THEN ${withoutNul} WHEN json_valid(${text}) THEN ${text} ELSE '{}' END`;
    const place = (name: string) => `CASE WHEN ${isLarge} THEN '$.data.data.${name}' ELSE '$.data.${name}' END`;
    const content = place("content");
    const tools = `(SELECT group_concat(json_extract(c.value, '$.name'), ' ') FROM json_each(${valid}, ${place("toolCalls")}) c WHERE c.type = 'object')`;
    const parts = `SELECT group_concat(json_extract(p.value, '$.text'), ' ') FROM json_each(${valid}, ${content}) p WHERE p.type = 'object'`;
    const small = `CASE json_type(${valid}, ${content}) WHEN 'text' THEN json_extract(${valid}, ${content}) ELSE (${parts}) END`;
    const path = "r.value, '$.path";
    const isText = `json_extract(${path}[1]') = 'content' AND (json_array_length(${path}') = 2 OR (json_array_length(${path}') = 4 AND json_extract(${path}[3]') = 'text'))`;
    const large = `(SELECT group_concat(substr(l."value", 1, ${maxTextLength}), ' ') FROM json_each(${valid}, '$.references') r JOIN ${this.#name("large")} l ON l."tenant" = ${row}."tenant" AND l."session" = ${row}."session" AND l."digest" = json_extract(r.value, '$.digest') WHERE ${isText})`;
    return `substr(coalesce(${tools}, '') || ' ' || coalesce(${small}, '') || ' ' || coalesce(${large}, ''), 1, ${maxTextLength})`;
  }

  #name(table: string): string {
    return `"${this.#prefix}${table}"`;
  }

  // Statements are not kept: libsql keeps a closed handle open through them, and a search is rare.

  #all(sql: string, ...parameters: SqliteValue[]): readonly unknown[] {
    const statement: CheckedStatement = this.#database.prepare(sql);
    return statement.all(...parameters);
  }

  #run(sql: string, ...parameters: SqliteValue[]): void {
    const statement: CheckedStatement = this.#database.prepare(sql);
    statement.run(...parameters);
  }
}

/** The tenant as one token: the tokenizer would split its name. */
function tenantToken(row: "new" | "e"): string {
  return `'t' || lower(hex(${row}."tenant"))`;
}

/** The key of a row as parameters. */
function keyIn(row: unknown): readonly [string, string, number] {
  return [String(field(row, "tenant")), String(field(row, "session")), integer(field(row, "position")) ?? 0];
}
