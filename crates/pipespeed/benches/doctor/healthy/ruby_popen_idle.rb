# A thread that waits for what an idle child prints.
child = IO.popen(['cat'], 'r+')
Thread.new { child.read }
sleep
