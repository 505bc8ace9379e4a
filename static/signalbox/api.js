"use strict";

// Swagger UI over our own description. Tried out with the session of whoever is logged in at the admin, a change
// carries the token that the server asks for.
const token = () => (document.cookie.match(/(?:^|;\s*)csrftoken=([^;]+)/) || [])[1];

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const dress = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", dress);
dress();

window.ui = SwaggerUIBundle({
  url: document.getElementById("reader").dataset.description,
  domNode: document.getElementById("reader"),
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  deepLinking: true,
  docExpansion: "none",
  validatorUrl: null,
  requestInterceptor: (request) => {
    if (token() && !["GET", "HEAD"].includes((request.method || "GET").toUpperCase())) {
      request.headers["X-CSRFToken"] = token();
    }
    return request;
  },
});
