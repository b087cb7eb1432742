history.replaceState = function () {};
function width() {
  return document.body.getBoundingClientRect().width;
}
addEventListener('resize', function (event) {
  if (!width()) event.stopImmediatePropagation();
});
new IntersectionObserver(function (changes, observer) {
  if (width() && changes.some(function (it) { return it.isIntersecting; })) {
    observer.disconnect();
    init();
  }
}).observe(document.body);
