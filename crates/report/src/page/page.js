"use strict";
(function () {
  var tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  document.querySelectorAll(".chart g > title").forEach(function (title) {
    title.parentNode.dataset.hint = title.textContent;
    title.remove();
  });
  function hide() {
    tip.hidden = true;
  }
  function show(event) {
    var part = event.target.closest("[data-hint]");
    tip.hidden = !part;
    if (part) {
      tip.textContent = part.dataset.hint;
      var right = innerWidth - tip.offsetWidth - 8;
      var below = innerHeight - tip.offsetHeight - 8;
      tip.style.left = Math.max(8, Math.min(event.clientX + 12, right)) + "px";
      tip.style.top = Math.min(event.clientY + 18, below) + "px";
    }
  }
  document.querySelectorAll(".chart").forEach(function (chart) {
    chart.addEventListener("pointermove", show);
    chart.addEventListener("pointerdown", show);
    chart.addEventListener("pointerleave", hide);
  });
  addEventListener("scroll", hide, { passive: true });
})();
