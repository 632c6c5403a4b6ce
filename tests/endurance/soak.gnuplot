# What the processes of a soak held, from `samples`, a file of soak_test, as
# `chart`. The second half of the time is what must be flat.

set terminal svg size 900,1300 background 'white'
set output chart
set datafile separator ','
set multiplot layout 5,1 title 'What a server and a client hold under load'
set grid
set key outside
set xlabel 'seconds'
set yrange [0:*]
set autoscale xfix
# The charts stand exactly one below the other.
set lmargin 10
set rmargin 20

set ylabel 'resident, MiB'
plot samples using 'seconds':(column('server_resident') / 1048576) with lines title 'server', \
     samples using 'seconds':(column('client_resident') / 1048576) with lines title 'client'
set ylabel 'heap in use, MiB'
plot samples using 'seconds':(column('server_heap') / 1048576) with lines title 'server', \
     samples using 'seconds':(column('client_heap') / 1048576) with lines title 'client'
set ylabel 'registered at the server, MiB'
plot samples using 'seconds':(column('server_bulk') / 1048576) with lines title 'bulk', \
     samples using 'seconds':(column('server_frames') / 1048576) with lines title 'frames'
set ylabel 'descriptors'
plot samples using 'seconds':'server_descriptors' with lines title 'server', \
     samples using 'seconds':'client_descriptors' with lines title 'client', \
     samples using 'seconds':'server_connections' with lines title 'connections'
set ylabel 'threads'
plot samples using 'seconds':'server_threads' with lines title 'server', \
     samples using 'seconds':'client_threads' with lines title 'client'
