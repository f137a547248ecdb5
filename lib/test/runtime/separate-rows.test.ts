// Turns of different sessions write different rows, so that accepting and driving them does not wait for one row of the
// database (Postgres locks a row until the end of the transaction that writes it).

import type { HostStorage } from "everturn/runtime";

import { calls, engine, fake, says, tool } from "everturn";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";
import { expect, test } from "vitest";

type Batch = Parameters<HostStorage["write"]>[0];
type Row = readonly (string | number)[];

test("no row is written or removed by turns of two sessions, from the start to the end", async () => {
  const storage = sqliteStorage({ path: ":memory:" });
  const batches: Batch[] = [];
  const host = {
    ...storage,
    write: (batch: Batch) => {
      batches.push(batch);
      return storage.write(batch);
    },
  };
  const look = tool({ name: "look", description: "Looks.", schema: { type: "object" }, handler: () => "seen" });
  const agent = engine({
    adapter: fake({ scripts: [calls("look", {}), says("Done."), calls("look", {}), says("Done.")] }),
    model: "fake:m",
    tools: [look],
  });
  const sessions = runtime({ host, engines: { default: agent } });
  const rowsOf = async (id: string): Promise<readonly Row[]> => {
    const before = batches.length;
    const turn = await sessions.start("Look.", { id, key: `start ${id}`, metadata: { team: "a" } });
    expect((await turn.result).text).toBe("Done.");
    return batches
      .slice(before)
      .flatMap(({ puts, removals }) => [
        ...puts.map(({ table, key }) => [table, ...key]),
        ...removals.map(({ table, prefix }) => [table, ...prefix]),
      ]);
  };
  const [first, second] = [await rowsOf("s1"), await rowsOf("s2")];
  expect(first.length).toBeGreaterThan(10);
  // A removal names a prefix of rows.
  const overlaps = (one: Row, other: Row) => one.every((part, index) => index >= other.length || part === other[index]);
  expect(first.filter((one) => second.some((other) => overlaps(one, other)))).toEqual([]);
  await sessions.close();
});
