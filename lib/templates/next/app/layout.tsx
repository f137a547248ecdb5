import type { ReactNode } from "react";

import "../page/style.css";

export const metadata = { title: "{{name}}" };

export default function Layout({ children }: { children: ReactNode }) {
  return (
    <html lang="en">
      <body>{children}</body>
    </html>
  );
}
