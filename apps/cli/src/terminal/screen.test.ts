import { expect, test } from "vitest";

import { FakeTerminal } from "../../test/fake-terminal.ts";
import { Screen } from "./screen.ts";

test("keeps live rows below permanent text, which is never changed", () => {
  const paper = new FakeTerminal();
  const screen = new Screen(paper);
  screen.live({ rows: ["* one", "* two"], cursor: null });
  screen.print("first\n");
  expect(paper.lines).toEqual(["first", "* one", "* two"]);
  screen.live({ rows: ["* two"], cursor: null });
  screen.print("✓ one\n");
  expect(paper.lines).toEqual(["first", "✓ one", "* two"]);
  screen.live({ rows: [], cursor: null });
  expect(paper.lines).toEqual(["first", "✓ one", ""]);
});

test("draws no live rows while the printed text is in the middle of a line", () => {
  const paper = new FakeTerminal();
  const screen = new Screen(paper);
  screen.live({ rows: ["* busy"], cursor: null });
  screen.print("Hel");
  expect(paper.lines).toEqual(["Hel"]);
  screen.print("lo\n");
  expect(paper.lines).toEqual(["Hello", "* busy"]);
});

test("places the cursor, or hides it", () => {
  const paper = new FakeTerminal();
  const screen = new Screen(paper);
  screen.live({ rows: ["> ab", "  cd", "hint"], cursor: { row: 1, column: 3 } });
  expect([paper.row, paper.column, paper.isCursorSeen]).toEqual([1, 3, true]);
  screen.live({ rows: ["* busy"], cursor: null });
  expect(paper.lines).toEqual(["* busy"]);
  expect(paper.isCursorSeen).toBe(false);
});

test("cuts rows that exceed the height of the terminal around the cursor", () => {
  const paper = new FakeTerminal(4);
  const screen = new Screen(paper);
  screen.live({ rows: ["1", "2", "3", "4", "5"], cursor: { row: 3, column: 0 } });
  expect(paper.lines).toEqual(["2", "3", "4"]);
  expect(paper.row).toBe(2);
});
