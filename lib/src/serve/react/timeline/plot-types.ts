// What the parts of the plot share.

import type { Bar, TurnLayout } from "./layout.ts";

export type PlotProps = {
  readonly layout: TurnLayout;
  readonly label: string;
  /** The ordinal of the selected row. */
  readonly selected: number | null;
  /** The child turn that has the selected row; `null`: the turn itself. */
  readonly selectedTurn: string | null;
  /** The playhead, in milliseconds since the turn was accepted; `null`: the present. */
  readonly at: number | null;
  /** The bars on the critical path; `null`: not shown. */
  readonly critical: ReadonlySet<string> | null;
  /** The visible part of the axis; `null`: all of it. */
  readonly view: View | null;
  readonly onView: (view: View | null) => void;
  /** `turnId`: the child turn that has the row; `null`: the turn itself. */
  readonly onSelect: (ordinal: number, turnId: string | null) => void;
  readonly onScrub: (at: number | null) => void;
  readonly onHover: (hover: Hover | null) => void;
};

/** The visible part of the axis, in positions. */
export type View = { readonly from: number; readonly to: number };

/** The bars under the pointer, and where they are on the screen. */
export type Hover = { readonly bars: readonly Bar[]; readonly box: DOMRect };
