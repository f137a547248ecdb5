// The view "Overview".

import type { ReactNode } from "react";

import { useTitle } from "../shell/title.ts";

export function Overview(): ReactNode {
  useTitle("Overview");
  return <h1 className="page-title">Overview</h1>;
}
