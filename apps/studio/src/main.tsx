// Entry point of the page.

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "everturn/react.css";

import "./styles/fonts.css";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/sessions.css";
import "./styles/session.css";
import "./styles/conversation.css";
import { App } from "./app.tsx";
import { takeLink } from "./data/link-login.ts";
import { takeTenant } from "./route.ts";
import { applyTheme } from "./shell/theme.ts";

takeLink();
takeTenant(location.search);
applyTheme();

// References of the page are relative. Browsers resolve that of the icon again whenever the address has changed.
const icon = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
icon?.setAttribute("href", icon.href);

const root = document.querySelector("#root");
if (root !== null) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
