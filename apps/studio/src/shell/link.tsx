// A link to a view of the page. A plain click changes the route without a load; a click with a modifier opens a tab, as
// for every link.

import type { Route } from "../route.ts";
import type { ComponentProps, MouseEvent, ReactNode } from "react";

import { hrefOf, navigate, useListFilter } from "../route.ts";

export function Link({
  to,
  replace = false,
  onClick,
  ...attributes
}: { readonly to: Route; readonly replace?: boolean } & Omit<ComponentProps<"a">, "href">): ReactNode {
  // A change of the filter changes the addresses of all links of the list.
  const filter = useListFilter();
  const click = (event: MouseEvent<HTMLAnchorElement>): void => {
    onClick?.(event);
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    navigate(to, { replace });
  };
  return <a {...attributes} href={hrefOf(to, undefined, filter)} onClick={click} />;
}
