// Whether the conversation follows its end. It does until the reader scrolls up, and again when the reader returns to
// the end.
//
// A scroll event does not say who has scrolled. The list scrolls too: when rows are measured, and when it follows. So a
// movement counts as one of the reader only soon after an action of the reader in the list: the wheel, a touch, a key,
// a press on the scroll bar.

import type { Virtualizer } from "@tanstack/react-virtual";
import type { RefObject } from "react";

import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";

/** A reader who scrolls down to within this distance of the end follows it, in CSS pixels. */
const endDistance = 80;
/** How long after an action of the reader a movement is its effect, in milliseconds. */
const actionMs = 1000;

export type Following = {
  /** `false`: the reader has scrolled away from the end. */
  readonly isFollowing: boolean;
  /** Shows the end, and follows it. */
  readonly toEnd: () => void;
  /** Stays where the view is. */
  readonly stay: () => void;
};

/** Follows the end of a list of `count` rows. `isAtStart`: whether it does so at first. */
export function useFollow(
  scroller: RefObject<HTMLDivElement | null>,
  rows: Virtualizer<HTMLDivElement, Element>,
  count: number,
  isAtStart: boolean,
): Following {
  const [isFollowing, setFollowing] = useState(isAtStart);
  const follows = useRef(isAtStart);
  const change = useCallback((next: boolean) => {
    follows.current = next;
    setFollowing(next);
  }, []);
  const showEnd = useCallback(() => {
    const element = scroller.current;
    if (follows.current && element !== null) element.scrollTop = element.scrollHeight;
  }, [scroller]);
  const size = rows.getTotalSize();
  useLayoutEffect(showEnd, [showEnd, size, count]);
  useEffect(() => {
    const element = scroller.current;
    return element === null ? undefined : watch(element, change, showEnd);
  }, [scroller, change, showEnd]);
  const toEnd = useCallback(() => {
    change(true);
    showEnd();
  }, [change, showEnd]);
  const stay = useCallback(() => change(false), [change]);
  return { isFollowing, toEnd, stay };
}

/** Reports how the reader moves an element, and calls `onResize` when it or its content changes its height. */
function watch(element: HTMLElement, change: (isFollowing: boolean) => void, onResize: () => void): () => void {
  const ending = new AbortController();
  const options = { signal: ending.signal, passive: true } as const;
  let actsUntil = 0;
  let before = element.scrollTop;
  const act = (): void => void (actsUntil = performance.now() + actionMs);
  for (const type of ["wheel", "touchmove", "keydown", "pointerup"] as const)
    element.addEventListener(type, act, options);
  // A press on the scroll bar lasts as long as the reader likes.
  element.addEventListener(
    "pointerdown",
    ({ target }) => void (actsUntil = target === element ? Infinity : actsUntil),
    options,
  );
  element.addEventListener(
    "scroll",
    () => {
      const { scrollTop, scrollHeight, clientHeight } = element;
      const moved = scrollTop - before;
      before = scrollTop;
      if (performance.now() > actsUntil || moved === 0) return;
      const distance = scrollHeight - scrollTop - clientHeight;
      if (moved > 0 && distance < endDistance) change(true);
      if (moved < 0 && distance > 1) change(false);
    },
    options,
  );
  // The view also changes its height: by a line above the composer, a pane, the keyboard of a phone.
  const observer = new ResizeObserver(onResize);
  observer.observe(element);
  if (element.firstElementChild !== null) observer.observe(element.firstElementChild);
  return () => {
    ending.abort();
    observer.disconnect();
  };
}
