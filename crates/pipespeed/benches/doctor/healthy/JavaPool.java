// Threads without work, one of which waits for what an idle child prints.
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

class JavaPool {
    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(3);
        Process child = new ProcessBuilder("cat").start();
        pool.submit(() -> child.getInputStream().read());
        pool.submit(() -> child.getErrorStream().read());
        pool.submit(() -> 1).get();
        Thread.sleep(1_000_000);
    }
}
