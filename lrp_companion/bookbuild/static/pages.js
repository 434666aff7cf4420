// Draws every plotly figure that the book's Sphinx extension left in the page as JSON.
for (const host of document.querySelectorAll("[data-companion-plot]")) {
  const { data, layout } = JSON.parse(host.querySelector("script")?.textContent ?? "");
  Plotly.newPlot(host, data, layout, { responsive: true, displaylogo: false });
}
