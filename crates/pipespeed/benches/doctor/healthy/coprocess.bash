# A coprocess that is asked for something every second.
coproc sed -u s/1/2/
while :; do echo 21 >&"${COPROC[1]}"; read -r -u "${COPROC[0]}"; sleep 1; done
