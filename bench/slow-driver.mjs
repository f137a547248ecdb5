// A SQLite driver whose write transactions take longer to commit, as on a disk with a slow fsync: by `ms` of the URL,
// in milliseconds.

import Database from "libsql";

const delayMs = Number(new URL(import.meta.url).searchParams.get("ms"));
const never = new Int32Array(new SharedArrayBuffer(4));

export function open(path) {
  const database = new Database(path);
  let writing = false;
  const exec = (sql) => {
    if (sql === "COMMIT" && writing) Atomics.wait(never, 0, 0, delayMs);
    if (sql.startsWith("BEGIN")) writing = sql === "BEGIN IMMEDIATE";
    return database.exec(sql);
  };
  return { exec, prepare: (sql) => database.prepare(sql), close: () => database.close() };
}
