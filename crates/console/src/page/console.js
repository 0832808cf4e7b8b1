const list = document.getElementById("sessions");
const source = new EventSource("events");
for (const kind of ["snapshot", "changes", "ended", "gone"]) {
  source.addEventListener(kind, (message) => {
    const { session } = JSON.parse(message.data);
    const line = document.createElement("li");
    line.textContent = `${session}: ${kind}`;
    list.append(line);
  });
}
