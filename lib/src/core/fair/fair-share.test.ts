// The shares of a limited resource: nothing exceeds them, keys are served round robin, and a full one waits, is refused
// or evicts.

import type { Permit } from "./fair-share.ts";

import { describe, expect, test } from "vitest";

import { FairShare } from "./fair-share.ts";

/** Pseudo-random numbers from 0 to `below`, the same in every run. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * below);
  };
}

const seeds = Array.from({ length: 50 }, (_, seed) => seed);

describe("requests that wait", () => {
  /** Requests a unit for each name, whose first letter is the key. `granted` lists the names in the order of grants. */
  function world(capacity: { readonly total?: number; readonly each?: number }) {
    const share = new FairShare(capacity);
    const granted: string[] = [];
    const request = (name: string) => {
      const permit = share.request(name.charAt(0));
      void permit.granted.then(() => granted.push(name));
      return permit;
    };
    return { share, granted, request };
  }
  const settled = () => new Promise((resolve) => setImmediate(resolve));

  test("never exceed the total or a share, and wait only while one of them is used up", () => {
    for (const seed of seeds) {
      const number = numbers(seed);
      const [total, each] = [1 + number(6), 1 + number(3)];
      const share = new FairShare({ total, each });
      const requests: { readonly key: string; readonly permit: Permit }[] = [];
      for (let step = 0; step < 300; step += 1) {
        const key = "abcd".charAt(number(4));
        if (number(5) < 3) requests.push({ key, permit: share.request(key) });
        // A permit that is held, waits, or was released before.
        else requests[number(requests.length)]?.permit.release();
        const held = requests.filter(({ permit }) => permit.state === "held").length;
        expect([share.held, held <= total]).toEqual([held, true]);
        expect([..."abcd"].every((one) => share.heldBy(one) <= each)).toBe(true);
        const waitsInVain = requests.find(
          (one) => one.permit.state === "waiting" && held < total && share.heldBy(one.key) < each,
        );
        expect(waitsInVain).toBeUndefined();
      }
      for (const { permit } of requests) permit.release();
      expect([share.held, share.largestKey]).toEqual([0, null]);
    }
  });

  test("of one key are granted in order, whatever the other keys do", async () => {
    for (const seed of seeds) {
      const number = numbers(seed);
      const { granted, request } = world({ total: 3, each: 2 });
      const permits = Array.from({ length: 60 }, (_, index) => request(`${"abc".charAt(number(3))}${index}`));
      while (permits.some(({ state }) => state !== "released")) {
        const held = permits.filter(({ state }) => state === "held");
        held[number(held.length)]?.release();
      }
      await settled();
      for (const key of "abc") {
        const order = granted.filter((name) => name.startsWith(key)).map((name) => Number(name.slice(1)));
        expect(order).toEqual(order.toSorted((one, other) => one - other));
      }
    }
  });

  test("of several keys are granted round robin, however many each of them has", async () => {
    const { granted, request } = world({ total: 3, each: 2 });
    const names = ["a1", "a2", "a3", "a4", "a5", "b1", "b2", "b3", "c1"];
    const permits = new Map(names.map((name) => [name, request(name)]));
    await settled();
    expect(granted).toEqual(["a1", "a2", "b1"]);
    for (const name of granted) {
      permits.get(name)?.release();
      // Releasing again has no effect.
      permits.get(name)?.release();
      await settled();
    }
    expect(granted).toEqual(["a1", "a2", "b1", "a3", "b2", "c1", "a4", "b3", "a5"]);
  });

  test("of a key with few requests are passed by each other key at most once", async () => {
    const { granted, request } = world({ total: 1 });
    const permits = Array.from({ length: 90 }, (_, index) => request(`${"ab".charAt(index % 2)}${index}`));
    permits.push(request("c"));
    for (let released = 0; released < 10; released += 1) permits.find(({ state }) => state === "held")?.release();
    await settled();
    expect(granted.indexOf("c")).toBe(3);
  });

  test("leave the queue when they are released, and are never granted", async () => {
    const { share, granted, request } = world({ total: 1 });
    const [first, second, third] = [request("a1"), request("a2"), request("a3")];
    second.release();
    first.release();
    await settled();
    expect([granted, second.state, third.state]).toEqual([["a1", "a3"], "released", "held"]);
    // A release that comes twice gives back one unit.
    first.release();
    expect(share.held).toBe(1);
  });

  test("wait for a capacity that was reduced, and are granted round robin when it grows again", async () => {
    const capacity = { total: 4, each: 4 };
    const { share, granted, request } = world(capacity);
    const first = ["a1", "a2", "a3"].map(request);
    capacity.total = 2;
    for (const name of ["a4", "a5", "b1", "b2"]) request(name);
    first[0]?.release();
    await settled();
    expect([granted, share.held]).toEqual([["a1", "a2", "a3"], 2]);
    capacity.total = 5;
    share.grantFree();
    await settled();
    expect(granted.slice(3)).toEqual(["a4", "b1", "a5"]);
    // The last unit that is free is not for a key whose share was reduced.
    capacity.each = 3;
    first[1]?.release();
    await settled();
    expect(granted.slice(6)).toEqual(["b2"]);
  });

  test("run their work, and give the unit back when it fails", async () => {
    const share = new FairShare({ each: 1 });
    await expect(share.run("a", () => Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(await Promise.all(["a", "a", "b"].map((key, index) => share.run(key, async () => index)))).toEqual([
      0, 1, 2,
    ]);
    expect(share.held).toBe(0);
  });
});

describe("amounts that are refused", () => {
  test("never exceed the total or a share, besides a single one that is larger", () => {
    for (const seed of seeds) {
      const number = numbers(seed);
      const share = new FairShare({ total: 100, each: 60 });
      const taken: { readonly key: string; readonly amount: number }[] = [];
      for (let step = 0; step < 300; step += 1) {
        const [key, amount] = ["abc".charAt(number(3)), 1 + number(60)];
        const isFree = share.held + amount <= 100 && share.heldBy(key) + amount <= 60;
        expect(share.tryTake(key, amount)).toBe(isFree);
        if (isFree) taken.push({ key, amount });
        const back = number(3) === 0 ? taken.pop() : undefined;
        if (back !== undefined) share.giveBack(back.key, back.amount);
      }
      expect(share.held).toBe(taken.reduce((sum, { amount }) => sum + amount, 0));
    }
    const share = new FairShare({ total: 100, each: 60 });
    share.take("b", 50);
    expect([share.tryTake("a", 200), share.tryTake("a", 1), share.heldBy("a")]).toEqual([true, false, 200]);
  });

  test("can be given back in parts", () => {
    const share = new FairShare({ each: 10 });
    share.tryTake("a", 10);
    share.giveBack("a", 4);
    expect([share.heldBy("a"), share.tryTake("a", 5), share.tryTake("a", 4)]).toEqual([6, false, true]);
  });
});

describe("amounts that evict others", () => {
  function world() {
    const share = new FairShare({ each: 100, total: 250 });
    const evicted: string[] = [];
    const hold = (name: string, key: string, amount: number) => share.hold(key, amount, () => evicted.push(name));
    return { share, evicted, hold };
  }

  test("evict the oldest ones of a key that exceeds its share, and none of others", () => {
    const { share, evicted, hold } = world();
    hold("other", "b", 60);
    hold("first", "a", 60);
    hold("second", "a", 40);
    expect(evicted).toEqual([]);
    hold("third", "a", 50);
    expect([evicted, share.held]).toEqual([["first"], 150]);
  });

  test("evict the oldest ones of the key that holds the most if the total is used up", () => {
    const { share, evicted, hold } = world();
    hold("a", "a", 100);
    hold("b", "b", 90);
    hold("c", "c", 50);
    hold("d", "d", 40);
    expect([evicted, share.held]).toEqual([["a"], 180]);
  });

  test("keep one that is larger than its share, and are given back once", () => {
    const { share, evicted, hold } = world();
    const endSmall = hold("small", "a", 10);
    const endLarge = hold("large", "a", 1000);
    expect([evicted, share.held]).toEqual([["small"], 1000]);
    endSmall();
    endLarge();
    endLarge();
    expect(share.held).toBe(0);
  });
});
