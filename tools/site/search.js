const input = document.getElementById('search'), found = document.getElementById('found'), menu = document.getElementById('menu');
for (const s of sections) s.all = (s.t + ' ' + s.x).toLowerCase();

function search() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.replaceChildren();
  found.hidden = words.length === 0;
  menu.hidden = words.length > 0;
  if (!words.length) return;
  const hits = [];
  for (const s of sections) {
    if (!words.every((w) => s.all.includes(w))) continue;
    const title = s.t.toLowerCase();
    hits.push([words.filter((w) => title.includes(w)).length, s]);
  }
  hits.sort((a, b) => b[0] - a[0]);
  for (const [, s] of hits.slice(0, 30)) {
    const a = document.createElement('a'), li = document.createElement('li'), p = document.createElement('p');
    a.href = s.p + (s.a ? '#' + s.a : '');
    a.textContent = s.t;
    const at = Math.max(0, s.x.toLowerCase().indexOf(words[0]) - 40);
    p.textContent = s.x.slice(at, at + 120);
    li.append(a, p);
    found.append(li);
  }
  if (!hits.length) {
    const li = document.createElement('li');
    li.textContent = 'Nothing is found.';
    found.append(li);
  }
}
input.addEventListener('input', search);
document.addEventListener('keydown', (e) => {
  if (e.key === '/' && document.activeElement !== input) {
    e.preventDefault();
    input.focus();
  }
});
