// Shows the page.

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { Page } from "./page.tsx";

const root = document.querySelector("#page");
if (root !== null) {
  createRoot(root).render(
    <StrictMode>
      <Page />
    </StrictMode>,
  );
}
